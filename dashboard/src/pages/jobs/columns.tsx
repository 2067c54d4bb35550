import type { EndedRun, Job } from "../../api/types";
import { Name } from "../../components/Name";
import { StateMark } from "../../components/StateMark";
import { Strip, type Cell } from "../../components/Strip";
import type { Column } from "../../components/Table";
import { When } from "../../components/When";
import { callJob, jobName } from "../../names";
import { href } from "../../router";
import { scheduleWords } from "../../schedules";
import { stateOfJob } from "../../states";
import { duration, exact, second, zoneName } from "../../time";

const LATE = 2_000; // ms, as the API counts it

export function columnsOf(withOwner: boolean): Column<Job>[] {
  const columns: Column<Job>[] = [
    { head: "State", width: "7.5rem", phoneWidth: "3rem", cell: (job) => <StateMark state={stateOfJob(job)} /> },
    { head: "Name", cell: (job) => <a class="main-link" href={href(`/jobs/${job.job_id}`)}><Name of={callJob(job)} /></a> },
    { head: "Task", width: "12%", wide: true, cell: (job) => <span class="cut">{job.task}</span> },
    { head: "Schedule", width: "13%", wide: true, cell: (job) => <span class="cut" title={job.schedule.cron ?? undefined}>{scheduleWords(job.schedule)}</span> },
    { head: "Next", width: "8.2rem", phoneWidth: "6.4rem", cell: (job) => <Next job={job} /> },
    { head: "Last 20", width: "11rem", wide: true, cell: (job) => <Recent job={job} /> },
    { head: <abbr title="95 of 100 of the last 20 runs took no longer">p95</abbr>, width: "6rem", align: "end", wide: "very", cell: (job) => <P95 runs={job.recent ?? []} /> },
  ];
  return withOwner ? [...columns, { head: "Owner", width: "6%", wide: true, cell: (job) => <span class="cut">{job.user_id}</span> }] : columns;
}

/** A run that is due and has not started is loud. */
function Next({ job }: { job: Job }) {
  const isLate = job.next_run_at !== null && job.status === "active" && Date.parse(job.next_run_at) < second.value - LATE;
  const when = <When at={job.next_run_at} zone={job.schedule.timezone} />;
  return isLate ? <span class="late warn"><span aria-hidden="true">◷ </span><span class="wide">due </span>{when}</span> : when;
}

function Recent({ job }: { job: Job }) {
  return <Strip label={`Last runs of ${jobName(job)}`} cells={cellsOf(job.recent ?? [])} />;
}

/** The newest at the right. */
export function cellsOf(runs: EndedRun[]): Cell[] {
  return runs.toReversed().map((run) => ({ key: run.run_id, state: run.status, title: titleOf(run), isLate: (run.lag_ms ?? 0) > LATE }));
}

function titleOf(run: EndedRun): string {
  const took = run.duration_ms === null ? "" : `, took ${duration(run.duration_ms)}`;
  const late = (run.lag_ms ?? 0) > LATE ? `, ${duration(run.lag_ms!)} late` : "";
  return `${run.status}${run.end_time ? ` ${exact(Date.parse(run.end_time), zoneName())}` : ""}${took}${late}`;
}

function P95({ runs }: { runs: EndedRun[] }) {
  const took = runs.flatMap((run) => (run.duration_ms === null ? [] : [run.duration_ms])).sort((a, b) => a - b);
  if (!took.length) return <span class="faint">–</span>;
  return <span class="number">{duration(took[Math.ceil(took.length * 0.95) - 1]!)}</span>;
}
