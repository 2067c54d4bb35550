import { usePaged } from "../../api/use";
import type { Schemas } from "../../api/types";
import { Empty } from "../../components/Empty";
import { LookedBack } from "../../components/LookedBack";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { useEvents } from "../../live";

type Line = Schemas["AuditLine"];
const WORDS: Record<string, string> = {
  "job.create": "created it", "job.edit": "edited it", "job.put": "put its definition", "job.pause": "paused it", "job.resume": "resumed it",
  "job.cancel": "cancelled it", "job.run_now": "ran it by hand", "job.backfill": "backfilled it", "job.apply": "applied its declaration",
};

const COLUMNS: Column<Line>[] = [
  { head: "When", width: "7rem", cell: (line) => <When at={line.at} /> },
  { head: "Who", width: "12rem", phoneWidth: "7rem", cell: (line) => <span class="cut">{line.user_id ?? "the system"}</span> },
  { head: "Did", width: "14rem", phoneWidth: "auto", cell: (line) => <span class="cut" title={line.action}>{WORDS[line.action] ?? line.action}</span> },
  { head: "Detail", wide: true, cell: (line) => <span class="cut" title={JSON.stringify(line.detail)}>{line.detail ? JSON.stringify(line.detail) : <span class="faint">–</span>}</span> },
  { head: "From", width: "9rem", wide: true, cell: (line) => <span class="cut">{line.address ?? "–"}</span> },
];

/** Who did what with this job, newest first. */
export function AuditTab({ jobId }: { jobId: string }) {
  const audit = usePaged("/v1/audit", { query: { object_id: jobId } }, (page) => page.audit);
  useEvents("job", (events) => events.some((one) => one.job_id === jobId) && audit.reload(), [jobId]);
  return (
    <>
      {audit.error && <Trouble error={audit.error} onAgain={audit.reload} />}
      {audit.items.length > 0 && <Table label="Audit log" columns={COLUMNS} rows={audit.items} keyOf={(line) => `${line.at} ${line.action}`} isStale={audit.loading} onEnd={() => audit.lookedBackTo || audit.more()} />}
      {!audit.loading && !audit.error && !audit.items.length && <Empty title="The audit log has nothing about this job that you may read." command={`oncue audit --object ${jobId}`} />}
      <LookedBack to={audit.lookedBackTo} hasMore={audit.hasMore} onMore={audit.more} />
    </>
  );
}
