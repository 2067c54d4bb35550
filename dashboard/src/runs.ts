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

const TRIGGERS: Record<string, string> = { schedule: "schedule", run_now: "by hand", backfill: "backfill", requeue: "run again", catch_up: "catch-up" };

export function triggerWords(trigger: string | null): string {
  return (trigger && TRIGGERS[trigger]) ?? trigger ?? "–";
}
