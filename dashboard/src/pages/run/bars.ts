// The attempts of a run on a time axis, with what was between them.
import type { Schemas, WholeRun } from "../../api/types";
import { isRunning } from "../../runs";

type Attempt = Schemas["Attempt"];
/** `waitedFrom`: what was before it began: the time it was due, or the end of the attempt before. `took`: ms, as the run itself says of its last attempt; times are cut to ms. */
export type Bar = { number: number; from: number; to: number; took: number; waitedFrom: number; state: string; attempt: Attempt | null };

export function barsOf(run: WholeRun, now: number): Bar[] {
  const ended = run.attempts.filter((one) => one.start_time && one.end_time).sort((a, b) => a.number - b.number);
  const bars: Bar[] = [];
  let before: number | null = null;
  const beforeOf = (from: number): number => (before === null ? from - Math.max(0, run.lag_ms ?? 0) : Math.min(before, from));
  for (const attempt of ended) {
    const from = Date.parse(attempt.start_time!);
    const to = Date.parse(attempt.end_time!);
    const took = attempt.number === run.attempt_number ? (run.duration_ms ?? to - from) : to - from;
    bars.push({ number: attempt.number, from, to, took, waitedFrom: beforeOf(from), state: attempt.outcome ?? "failed", attempt });
    before = to;
  }
  if (isRunning(run) && run.start_time) {
    const from = Date.parse(run.start_time);
    const to = Math.max(now, from);
    bars.push({ number: run.attempt_number, from, to, took: to - from, waitedFrom: beforeOf(from), state: run.status, attempt: null });
  }
  return bars;
}
