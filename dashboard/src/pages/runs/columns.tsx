import type { Run } from "../../api/types";
import { Progress } from "../../components/Progress";
import { Name } from "../../components/Name";
import { StateMark } from "../../components/StateMark";
import type { Column } from "../../components/Table";
import { When } from "../../components/When";
import { callRun, runName } from "../../names";
import { href } from "../../router";
import { isRunning, startedBy } from "../../runs";
import { duration, second, shortDuration } from "../../time";

const LATE = 2_000; // ms, as the API counts it

export const COLUMNS: Column<Run>[] = [
  { head: "Status", width: "7rem", phoneWidth: "3.2rem", cell: (run) => <StateMark state={run.status} /> },
  { head: "Run of", width: "20%", phoneWidth: "auto", cell: (run) => <a class="main-link" href={href(`/runs/${run.run_id}`)}><Name of={callRun(run)} /></a> },
  { head: "Task", width: "10%", wide: true, cell: (run) => <span class="cut">{run.task}</span> },
  { head: "Due", width: "5.6rem", wide: true, cell: (run) => <When at={run.due_time} as="clock" /> },
  { head: "Ended", width: "6rem", phoneWidth: "5rem", cell: (run) => (run.end_time ? <When at={run.end_time} /> : <Until run={run} />) },
  { head: "Took", width: "6.2rem", phoneWidth: "4.2rem", align: "end", cell: (run) => <Took run={run} /> },
  { head: <abbr title="How late its first attempt started">Lag</abbr>, width: "4.8rem", align: "end", wide: true, cell: (run) => <Lag ms={run.lag_ms} /> },
  { head: <abbr title="Attempts">Tries</abbr>, width: "3.5rem", align: "end", wide: true, cell: (run) => <span class={run.attempt_number > 1 ? "number" : "number faint"}>{run.attempt_number || "–"}</span> },
  { head: "Started", width: "5.6rem", wide: "very", cell: (run) => <span class="cut faint">{startedBy(run)}</span> },
  { head: "Worker", width: "7%", wide: "very", cell: (run) => <span class="cut">{run.executor_name ?? <span class="faint">–</span>}</span> },
  { head: "Error", wide: true, cell: (run) => run.error_type && <span class="cut" title={run.error_message ?? ""}><b>{run.error_type}</b> <span class="faint">{run.error_message}</span></span> },
];

/** Of a run that waits for its time: how long until then. */
function Until({ run }: { run: Run }) {
  const isAhead = run.status === "scheduled" && run.due_time;
  return isAhead ? <span class="faint">due <When at={run.due_time} /></span> : <span class="faint">–</span>;
}

function Took({ run }: { run: Run }) {
  if (isRunning(run) && run.progress?.total) return <Progress label={`Progress of ${runName(run)}`} done={run.progress.done ?? 0} total={run.progress.total} />;
  const ms = isRunning(run) && run.start_time ? Math.max(0, second.value - Date.parse(run.start_time)) : run.duration_ms;
  if (ms === null) return <span class="faint">–</span>;
  return <span class="number took">{duration(ms).replace(/ (?=[a-z])/g, "\u00a0")}</span>; // "1 min 40 s" breaks before 40
}

function Lag({ ms }: { ms: number | null }) {
  if (ms === null) return <span class="faint">–</span>;
  return ms > LATE ? <span class="number late warn" title={`${duration(ms)} late`}><span aria-hidden="true">◷ </span>{shortDuration(ms)}</span> : <span class="number">{duration(ms)}</span>;
}
