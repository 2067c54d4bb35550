// What runs that started late waited for, as far as what is known of them afterwards tells.
import type { Run, Schemas } from "../../api/types";

export type Known = {
  /** Runs of the same time. */
  runs: Run[];
  workers: Pick<Schemas["Worker"], "worker_id" | "started_at">[];
  /** When queues were resumed. */
  resumed: { queue: string; at: number }[];
};
export type Wait = { reason: string; runs: Run[]; worst: number };

const ON_TIME = 250; // ms
const NEAR = 1_000; // ms between an event and the start that followed it

export function waitsOf(runs: Run[], known: Known): Wait[] {
  const found = new Map<string, Run[]>();
  for (const run of runs) {
    if (run.lag_ms === null) continue;
    const reason = waitedFor(run, known);
    found.set(reason, [...(found.get(reason) ?? []), run]);
  }
  const waits = [...found].map(([reason, some]) => ({ reason, runs: some, worst: Math.max(...some.map((run) => run.lag_ms!)) }));
  return waits.sort((a, b) => b.runs.length - a.runs.length || b.worst - a.worst);
}

export function waitedFor(run: Run, known: Known): string {
  const lag = run.lag_ms ?? 0;
  if (lag <= ON_TIME) return "Nothing to speak of: it started on time.";
  if (run.trigger === "catch_up") return "No scheduler ran when it was due; it was caught up later.";
  const due = Date.parse(run.due_time ?? "");
  const start = due + lag;
  const isBefore = (at: number): boolean => at > due && at <= start + NEAR;
  if (known.resumed.some((one) => one.queue === run.queue && isBefore(one.at))) return `The queue ${run.queue} was paused.`;
  const worker = known.workers.find((one) => one.worker_id === run.executor_id);
  if (worker?.started_at && isBefore(Date.parse(worker.started_at))) return "No worker for it ran when it was due.";
  if (known.runs.some((other) => blocked(other, run, due, start))) return "An earlier run of the same job had not ended.";
  return `A free slot, or its turn in its group, limit or rate (queue ${run.queue ?? "default"}).`;
}

function blocked(other: Run, run: Run, due: number, start: number): boolean {
  if (other.job_id !== run.job_id || other.run_id === run.run_id || !other.start_time || !other.end_time) return false;
  const end = Date.parse(other.end_time);
  return Date.parse(other.start_time) < start && end > due && end <= start + NEAR;
}
