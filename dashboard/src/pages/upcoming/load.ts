// How many runs come at once, against how many places workers have: about how late the last of them starts.
import type { Schemas } from "../../api/types";

export type Coming = Schemas["UpcomingRun"];
type Worker = Pick<Schemas["Worker"], "worker_id" | "status" | "tasks" | "queues" | "slots"> & { offer: object | null };
export type Arrival = { at: number; length: number };
/** Runs of one minute that share the same places. `length` and `wait` in ms are null while nobody knows how long they take. */
export type Peak = { at: number; runs: Coming[]; places: number; length: number | null; wait: number | null };

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

/** How long the last to start waits, if each takes the first place that is free. */
export function worstWait(arrivals: Arrival[], places: number): number {
  const free = new Array<number>(Math.min(places, arrivals.length)).fill(-Infinity);
  let worst = 0;
  for (const { at, length } of arrivals.toSorted((a, b) => a.at - b.at)) {
    const place = free.indexOf(Math.min(...free));
    const start = Math.max(at, free[place]!);
    worst = Math.max(worst, start - at);
    free[place] = start + length;
  }
  return worst;
}

/** The runs of one minute by the places they share; those that wait for long, or would if they took a while. */
export function peaksOf(runs: Coming[], workers: Worker[], lengths: Map<string, number>): Peak[] {
  const pools = new Map<string, { places: number; runs: Coming[] }>();
  for (const run of runs) {
    const { key, places } = placesOf(workers, run.task, run.queue);
    if (!places) continue; // that is a problem of its own, and told on the Overview
    pools.set(key, { places, runs: [...(pools.get(key)?.runs ?? []), run] });
  }
  return [...pools.values()].map((pool) => peakOf(pool.runs, pool.places, lengths)).filter(isWorthTelling);
}

function peakOf(runs: Coming[], places: number, lengths: Map<string, number>): Peak {
  const arrivals = runs.map((run) => ({ at: Date.parse(run.at), length: lengths.get(run.task) }));
  const isKnown = arrivals.every((one) => one.length !== undefined);
  const sum = arrivals.reduce((all, one) => all + (one.length ?? 0), 0);
  return { at: busiest(arrivals.map((one) => one.at)), runs, places, length: isKnown ? sum / runs.length : null, wait: isKnown ? worstWait(arrivals as Arrival[], places) : null };
}

function isWorthTelling({ runs, places, wait }: Peak): boolean {
  return wait === null ? runs.length > 2 * places : wait >= WORTH_TELLING;
}

function busiest(times: number[]): number {
  const counts = new Map<number, number>();
  for (const at of times) counts.set(at, (counts.get(at) ?? 0) + 1);
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
  const luck = luckOf(peak.runs.length);
  const draws = Array.from({ length: DRAWS }, () => worstWait(peak.runs.map((run) => ({ at: Date.parse(run.at) + luck() * jitter, length: peak.length! })), peak.places));
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
