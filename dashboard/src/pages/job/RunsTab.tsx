import { usePaged } from "../../api/use";
import type { Run } from "../../api/types";
import { Empty } from "../../components/Empty";
import { Filters } from "../../components/Filters";
import { LookedBack } from "../../components/LookedBack";
import { StateMark } from "../../components/StateMark";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { useEvents, type RunEvent } from "../../live";
import { href, query } from "../../router";
import { duration } from "../../time";

const STATUSES = ["running", "queued", "retrying", "succeeded", "dead", "cancelled", "expired"];

/** The runs of a job, live ones first. */
export function RunsTab({ jobId, zone }: { jobId: string; zone?: string }) {
  const status = query.value.get("status") ?? undefined;
  const runs = usePaged("/v1/runs", { query: { job_id: jobId, status } }, (page) => page.runs);
  useEvents("run", (events) => runs.update((shown) => withEvents(shown, events.filter((one) => one.job_id === jobId && (!status || status.split(",").includes(one.status))))), [jobId, status]);
  return (
    <>
      <Filters filters={[{ param: "status", label: "Status", choices: STATUSES }]} />
      {runs.error && <Trouble error={runs.error} onAgain={runs.reload} />}
      {runs.items.length > 0 && <Table label="Runs" columns={columnsOf(zone)} rows={runs.items} keyOf={(run) => run.run_id} isStale={runs.loading} onEnd={() => runs.lookedBackTo || runs.more()} />}
      {!runs.loading && !runs.error && !runs.items.length && <Empty title={status ? "No run of this job has this status." : "This job has no runs yet."} command={`oncue jobs run ${jobId} --wait`} />}
      <LookedBack to={runs.lookedBackTo} hasMore={runs.hasMore} onMore={runs.more} />
    </>
  );
}

/** Changed runs in their places, new ones first. */
export function withEvents(shown: Run[], events: RunEvent[]): Run[] {
  const byId = new Map(events.map((event) => [event.run_id, event]));
  const changed = shown.map((run) => ({ ...run, ...byId.get(run.run_id) }));
  const known = new Set(shown.map((run) => run.run_id));
  return [...events.filter((event) => !known.has(event.run_id)) as unknown as Run[], ...changed];
}

function columnsOf(zone?: string): Column<Run>[] {
  return [
    { head: "Status", width: "8rem", phoneWidth: "3.4rem", cell: (run) => <StateMark state={run.status} /> },
    { head: "Due", width: "8rem", cell: (run) => <a class="main-link" href={href(`/runs/${run.run_id}`)}><When at={run.due_time} zone={zone} as="clock" none={run.run_id.slice(-8)} /></a> },
    { head: "Ended", width: "6.5rem", cell: (run) => <When at={run.end_time} zone={zone} /> },
    { head: "Took", width: "6rem", align: "end", wide: true, cell: (run) => <Ms ms={run.duration_ms} /> },
    { head: "Lag", width: "6rem", align: "end", wide: true, cell: (run) => <Ms ms={run.lag_ms} /> },
    { head: "Attempts", width: "5.5rem", align: "end", wide: true, cell: (run) => <span class="number">{run.attempt_number}</span> },
    { head: "Worker", width: "8rem", wide: true, cell: (run) => <span class="cut">{run.executor_name ?? "–"}</span> },
    { head: "Error", wide: true, cell: (run) => run.error_type && <span class="cut" title={run.error_message ?? ""}><b>{run.error_type}</b> {run.error_message}</span> },
  ];
}

function Ms({ ms }: { ms: number | null }) {
  return ms === null ? <span class="faint">–</span> : <span class="number">{duration(ms)}</span>;
}
