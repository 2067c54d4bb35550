import type { Schemas } from "../../api/types";
import { useGet, usePaged } from "../../api/use";
import { Empty } from "../../components/Empty";
import { Filters, type Filter } from "../../components/Filters";
import { LookedBack } from "../../components/LookedBack";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { useEvents } from "../../live";
import { href, query } from "../../router";
import { isAdmin } from "../../session";
import { now } from "../../time";
import { known } from "../../windows";

type Line = Schemas["AuditLine"];

const ACTIONS = [
  "job.create", "job.edit", "job.put", "job.pause", "job.resume", "job.run_now", "job.cancel", "job.backfill", "job.purge",
  "run.cancel", "run.retry", "dead_letters.requeue", "dead_letters.discard", "queue.pause", "queue.resume",
  "worker.drain", "worker.resume", "key.create", "key.revoke", "session.create", "session.delete",
];
const WINDOWS: Record<string, number> = { "last hour": 3_600_000, "last day": 86_400_000, "last week": 604_800_000 };
const MINUTE = 60_000;

export function Audit() {
  const wanted = asked();
  const lines = usePaged("/v1/audit", { query: wanted }, (page) => page.audit);
  useEvents("job", lines.reload);
  useEvents("queue", lines.reload);
  const isFiltered = Object.values(wanted).some(Boolean);
  return (
    <>
      <Filters filters={useFilters()} />
      {lines.error && <Trouble error={lines.error} onAgain={lines.reload} />}
      {lines.items.length > 0 && <Table label="Audit log" columns={COLUMNS} rows={lines.items} keyOf={keyOf} isStale={lines.loading} onEnd={lines.more} />}
      {!lines.loading && !lines.error && !lines.items.length && !lines.hasMore && (
        <Empty title={isFiltered ? "No entry matches these filters." : "Nobody has changed anything yet."} command="oncue audit --from '1d ago'" />
      )}
      <LookedBack to={lines.items.length ? null : lines.lookedBackTo} hasMore={lines.hasMore} onMore={lines.more} />
    </>
  );
}

/** What the URL asks for. The window begins at a whole minute, so that the question is the same for a while. */
function asked(): Record<string, string | undefined> {
  const given = (name: string): string | undefined => query.value.get(name) ?? undefined;
  const length = known(WINDOWS, given("within"));
  const from = length ? new Date(Math.floor((now() - length) / MINUTE) * MINUTE).toISOString() : undefined;
  return { object_id: given("object_id"), action: given("action"), user_id: isAdmin.value ? given("user_id") : undefined, start_time: from };
}

function useFilters(): Filter[] {
  const users = useGet(isAdmin.value ? "/v1/users" : null);
  const byUser: Filter = { param: "user_id", label: "User", suggestions: users.data?.users.map((user) => user.user_id) };
  return [
    { param: "within", label: "When", choices: Object.keys(WINDOWS), one: true },
    { param: "action", label: "Action", suggestions: ACTIONS },
    ...(isAdmin.value ? [byUser] : []),
    { param: "object_id", label: "Object id" },
  ];
}

/** Entries have no id; two of one moment differ in what they say. */
function keyOf(line: Line): string {
  return JSON.stringify(line);
}

const COLUMNS: Column<Line>[] = [
  { head: "When", width: "7rem", phoneWidth: "5.3rem", cell: (line) => <When at={line.at} /> },
  { head: "User", width: "13%", phoneWidth: "4.4rem", cell: (line) => <span class="cut">{line.user_id ?? <span class="faint">oncue itself</span>}</span> },
  { head: "Action", width: "11rem", phoneWidth: "auto", cell: (line) => <a class="main-link" href={href("/admin/audit", { action: line.action })}>{line.action}</a> },
  { head: "Of", width: "9.5rem", phoneWidth: "6.4rem", cell: (line) => <Thing line={line} /> },
  { head: "Details", wide: true, cell: (line) => <Details of={line.detail} /> },
  { head: "From", width: "9rem", wide: true, cell: (line) => <span class="cut faint">{line.address}</span> },
];

const PAGES: Record<string, string> = { job: "/jobs", run: "/runs", worker: "/workers" };

function Thing({ line }: { line: Line }) {
  if (!line.object_id) return <span class="faint">–</span>;
  const page = PAGES[line.action.split(".")[0]!];
  const short = <code title={line.object_id}>{line.action.split(".")[0]} …{line.object_id.slice(-6)}</code>;
  return page ? <a href={href(`${page}/${line.object_id}`)}>{short}</a> : short;
}

function Details({ of }: { of: object | null }) {
  if (!of) return null;
  const text = Object.entries(of).map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
  return <span class="cut" title={text}>{text}</span>;
}
