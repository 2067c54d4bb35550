// How many runs come at once, against how many places workers have: about how late the last of them starts.
import type { Schemas } from "../../api/types";

export type Coming = Schemas["UpcomingRun"];
type Worker = Pick<Schemas["Worker"], "worker_id" | "status" | "tasks" | "queues" | "slots"> & { offer: object | null };
/** Runs of one task and queue that come in one minute: how many in which second. */
export type Arrivals = { task: string; queue: string; seconds: { at: number; n: number }[] };
/** Runs of one minute that share the same places. `length` and `wait` in ms are null while nobody knows how long they take. */
export type Peak = { at: number; n: number; of: Arrivals[]; places: number; length: number | null; wait: number | null };

const MINUTE = 60_000;
const NEIGHBOURS = 5; // minutes to either side, to tell what is usual there
const LEAST = 3; // runs more than usual
const WORTH_TELLING = 1_000; // ms of lag

/** Minutes that stand out from those before and after them, the most first. Counts that only fall off do not. */
export function heaviest(buckets: { at: number; n: number }[], most: number): number[] {
  const counts = new Map(buckets.map((bucket) => [bucket.at, bucket.n]));
  const start = Math.min(...counts.keys());
  const usual = (at: number, side: -1 | 1): number => {
    const near = Array.from({ length: NEIGHBOURS }, (_, index) => at + side * (index + 1) * MINUTE).filter((minute) => minute >= start);
    return near.map((minute) => counts.get(minute) ?? 0).sort((a, b) => a - b)[Math.floor(near.length / 2)] ?? 0;
  };
  const excess = buckets.map(({ at, n }) => ({ at, more: n - Math.max(usual(at, -1), usual(at, 1)) })).filter((one) => one.more >= LEAST);
  return excess.sort((a, b) => b.more - a.more || a.at - b.at).slice(0, most).map((one) => one.at);
}

/** The places that runs of a task and queue share: tasks with the same limit on the same workers have one key. */
export function placesOf(workers: Worker[], task: string, queue: string): { key: string; places: number } {
  const fit = workers.filter((one) => one.status === "active" && one.tasks.includes(task) && one.queues.includes(queue));
  const limits = fit.map((one) => ({ id: one.worker_id, n: limitOf(one, task) }));
  return { key: limits.map(({ id, n }) => `${id}:${n}`).sort().join(" "), places: limits.reduce((sum, { n }) => sum + n, 0) };
}

function limitOf({ offer, slots }: Worker, task: string): number {
  const told = offer as { slots?: Record<string, number>; resources?: { slots?: number } } | null;
  return told?.slots?.[task] ?? told?.resources?.slots ?? slots.loop ?? 1;
}

/** How long the last to start waits, if each of `length` takes the first place that is free: that of the run `places` before. */
export function worstWait(times: number[], length: number, places: number): number {
  const starts = Float64Array.from(times).sort();
  let worst = 0;
  for (const [index, at] of starts.entries()) {
    if (index >= places) starts[index] = Math.max(at, starts[index - places]! + length);
    worst = Math.max(worst, starts[index]! - at);
  }
  return worst;
}

/** What comes in one minute by the places it shares; what waits for long, or would if it took a while. */
export function peaksOf(coming: Arrivals[], workers: Worker[], lengths: Map<string, number>): Peak[] {
  const pools = new Map<string, { places: number; of: Arrivals[] }>();
  for (const one of coming) {
    const { key, places } = placesOf(workers, one.task, one.queue);
    if (!places || !one.seconds.length) continue; // without a place it is a problem of its own, and told on the Overview
    pools.set(key, { places, of: [...(pools.get(key)?.of ?? []), one] });
  }
  return [...pools.values()].map((pool) => peakOf(pool.of, pool.places, lengths)).filter(isWorthTelling);
}

function peakOf(of: Arrivals[], places: number, lengths: Map<string, number>): Peak {
  const counts = of.map((one) => ({ length: lengths.get(one.task), n: one.seconds.reduce((sum, { n }) => sum + n, 0) }));
  const n = counts.reduce((sum, one) => sum + one.n, 0);
  const length = counts.every((one) => one.length !== undefined) ? counts.reduce((sum, one) => sum + one.n * one.length!, 0) / n : null;
  return { at: busiest(of), n, of, places, length, wait: length === null ? null : worstWait(timesOf(of), length, places) };
}

function isWorthTelling({ n, places, wait }: Peak): boolean {
  return wait === null ? n > 2 * places : wait >= WORTH_TELLING;
}

function timesOf(of: Arrivals[]): number[] {
  return of.flatMap((one) => one.seconds.flatMap(({ at, n }) => new Array<number>(n).fill(at)));
}

function busiest(of: Arrivals[]): number {
  const counts = new Map<number, number>();
  for (const { at, n } of of.flatMap((one) => one.seconds)) counts.set(at, (counts.get(at) ?? 0) + n);
  return [...counts].reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}

/** The mean of a histogram, in ms: a bucket counts with the middle of its edges on a logarithmic scale. */
export function meanOf(buckets: number[], edges: number[]): number | null {
  const n = buckets.reduce((sum, one) => sum + one, 0);
  if (!n) return null;
  const middle = (index: number): number => (index === 0 ? edges[0]! / 2 : index >= edges.length ? edges.at(-1)! : Math.sqrt(edges[index - 1]! * edges[index]!));
  return (buckets.reduce((sum, one, index) => sum + one * middle(index), 0) / n) * 1_000;
}

export const JITTERS = [1, 2, 5, 10, 15, 30, 60, 120].map((minutes) => minutes * MINUTE);
const DRAWS = 15;

/** The lag that is left if each run starts up to `jitter` later: the middle of several draws. */
export function waitAfter(peak: Peak, jitter: number): number | null {
  if (peak.length === null) return null;
  const luck = luckOf(peak.n);
  const times = timesOf(peak.of);
  const draws = Array.from({ length: DRAWS }, () => worstWait(times.map((at) => at + luck() * jitter), peak.length!, peak.places));
  return draws.sort((a, b) => a - b)[Math.floor(DRAWS / 2)]!;
}

/** The least jitter that leaves a tenth of the lag, or the largest there is below `most`. */
export function goodJitter(peak: Peak, most: number): number {
  const possible = JITTERS.filter((one) => one <= most);
  const enough = peak.wait === null ? possible.find((one) => one >= 10 * MINUTE) : possible.find((one) => waitAfter(peak, one)! <= peak.wait! / 10);
  return enough ?? possible.at(-1) ?? MINUTE;
}

/** The same luck every time, so that what is shown does not flicker. */
function luckOf(seed: number): () => number {
  let state = seed + 1;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** "10m", as schedules are written. */
export function jitterText(ms: number): string {
  return ms % (60 * MINUTE) ? `${ms / MINUTE}m` : `${ms / (60 * MINUTE)}h`;
}
