// What pages know of runs: which are live, and what created them.

const RUNNING = new Set(["running", "cancelling"]);
const WAITING = new Set(["scheduled", "queued", "retrying"]);
export const LIVE = [...WAITING, ...RUNNING];
export const FINAL = ["succeeded", "dead", "cancelled", "expired"];

export function isRunning(run: { status: string }): boolean {
  return RUNNING.has(run.status);
}

export function isWaiting(run: { status: string }): boolean {
  return WAITING.has(run.status);
}

export function isLive(run: { status: string }): boolean {
  return isRunning(run) || isWaiting(run);
}

const STARTED_BY: Record<string, string> = { schedule: "by schedule", run_now: "by hand", backfill: "backfill", requeue: "run again", catch_up: "catch-up" };

/** What started it. The run of a job that runs once has the job's id: no schedule is at work there. */
export function startedBy(run: { run_id: string; job_id: string; trigger: string | null }): string {
  if (run.trigger === "schedule" && run.run_id === run.job_id) return "enqueued";
  return (run.trigger && STARTED_BY[run.trigger]) ?? run.trigger ?? "–";
}
