// What pages know of runs: which are live, and what they are called.

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

type Named = { run_id: string; job_name?: string | null; job_key?: string | null };

/** The name of its job, or the end of its id. */
export function nameOf(run: Named): string {
  return run.job_name ?? run.job_key ?? shortId(run.run_id);
}

/** The end of an id tells runs apart: ids of the same minute begin alike. */
export function shortId(id: string): string {
  return `…${id.slice(-8)}`;
}

const TRIGGERS: Record<string, string> = { schedule: "schedule", run_now: "by hand", backfill: "backfill", requeue: "run again", catch_up: "catch-up" };

export function triggerWords(trigger: string | null): string {
  return (trigger && TRIGGERS[trigger]) ?? trigger ?? "–";
}
