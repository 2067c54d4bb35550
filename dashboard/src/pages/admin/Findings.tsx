import type { Schemas } from "../../api/types";
import { usePaged } from "../../api/use";
import { Empty } from "../../components/Empty";
import { LookedBack } from "../../components/LookedBack";
import { StateMark } from "../../components/StateMark";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { href } from "../../router";

type Finding = Schemas["Finding"];

/** What the self-audit found: there should be nothing. */
export function Findings() {
  const findings = usePaged("/v1/findings", {}, (page) => page.findings);
  return (
    <>
      {findings.error && <Trouble error={findings.error} onAgain={findings.reload} />}
      {findings.items.length > 0 && <Table label="Findings" columns={COLUMNS} rows={findings.items} keyOf={(one) => `${one.check} ${one.object_id}`} isStale={findings.loading} onEnd={findings.more} />}
      {!findings.loading && !findings.error && !findings.items.length && (
        <Empty title="Nothing found: what is stored is what should have happened." command="oncue doctor">
          Schedulers compare the two all the time, every job within an hour. A finding is a bug in oncue, or a database that was changed from outside.
        </Empty>
      )}
      <LookedBack to={null} hasMore={findings.hasMore} onMore={findings.more} />
    </>
  );
}

const OF_RUNS: ReadonlySet<string> = new Set(["lane", "orphan", "expiry", "forgotten_run"]);

const COLUMNS: Column<Finding>[] = [
  { head: "State", width: "7rem", phoneWidth: "3.4rem", cell: (one) => <StateMark state={one.cleared_at ? "cleared" : "open"} /> },
  { head: "Check", width: "8rem", phoneWidth: "6rem", cell: (one) => one.check },
  { head: "What is wrong", cell: (one) => <span class="cut" title={one.detail}>{one.detail}</span> },
  { head: "Of", width: "8rem", wide: true, cell: (one) => <Thing of={one} /> },
  { head: "Found", width: "7rem", wide: true, cell: (one) => <When at={one.first_seen} /> },
  { head: "Seen last", width: "7rem", wide: true, cell: (one) => <When at={one.seen_at} /> },
];

function Thing({ of }: { of: Finding }) {
  if (!of.object_id) return <span class="faint">all</span>;
  return <a href={href(`${OF_RUNS.has(of.check) ? "/runs" : "/jobs"}/${of.object_id}`)}><code title={of.object_id}>…{of.object_id.slice(-8)}</code></a>;
}
