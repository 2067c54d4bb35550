// A run in one sentence.
import type { WholeRun } from "../../api/types";
import { duration, relative } from "../../times";

export function sentenceOf(run: WholeRun, now: number): string {
  const on = run.executor_name ? ` on ${run.executor_name}` : "";
  const tries = attempts(run.attempt_number);
  const took = run.duration_ms === null ? "" : ` after ${duration(run.duration_ms)}`;
  const since = (at: string | null): string => (at ? ` for ${duration(Math.max(0, now - Date.parse(at)))}` : "");
  switch (run.status) {
    case "succeeded": return `Succeeded${took}${on}${run.attempt_number > 1 ? `, at attempt ${run.attempt_number}` : ""}${late(run.lag_ms)}.`;
    case "dead": return `Dead after ${tries}${run.error_type ? `, ${run.error_type}` : ""}${run.executor_name ? `, worker ${run.executor_name}` : ""}.`;
    case "cancelled": return run.start_time ? `Cancelled${took}${on}.` : "Cancelled before it started.";
    case "expired": return "Expired: it could not start in time.";
    case "running": return `Running${since(run.start_time)}${on}${run.attempt_number > 1 ? `, attempt ${run.attempt_number}` : ""}${late(run.lag_ms)}.`;
    case "cancelling": return `Being stopped${on}: it has been running${since(run.start_time)}.`;
    case "retrying": return `Will be tried again: ${tries} failed${run.error_type ? `, the last with ${run.error_type}` : ""}.`;
    case "queued": return `Waiting${since(run.due_time)}: it has not started.`;
    default: return run.due_time ? `Due ${relative(Date.parse(run.due_time), now)}.` : "Not due yet.";
  }
}

function attempts(n: number): string {
  return n === 1 ? "1 attempt" : `${n} attempts`;
}

function late(ms: number | null): string {
  return ms === null ? "" : `, started ${duration(ms)} after it was due`;
}
