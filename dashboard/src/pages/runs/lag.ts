// Start lag by time, as counts for a heat map, and which runs a box in it means.
import type { Run, Schemas } from "../../api/types";
import { spanMs } from "../../times";

export type Grid = { times: number[]; step: number; counts: number[][] };
/** Of a lag, in ms: more than `over`, up to `upTo`. */
export type LagRange = { over?: number; upTo?: number };
export const EDGES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300, 3600]; // s, as the API has them

export function rowNames(edges: number[]): string[] {
  return [...edges.map((edge) => `≤ ${short(edge)}`), `> ${short(edges[edges.length - 1]!)}`];
}

function short(seconds: number): string {
  if (seconds < 1) return `${seconds * 1_000} ms`;
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3_600 ? `${seconds / 60} min` : `${seconds / 3_600} h`;
}

export function gridOfSeries(answer: Schemas["SeriesAnswer"]): Grid {
  const step = spanMs(answer.step);
  const from = Math.floor(Date.parse(answer.start_time) / step) * step;
  const times: number[] = [];
  for (let at = from; at < Date.parse(answer.end_time); at += step) times.push(at);
  const points = new Map((answer.series[0]?.points ?? []).map((point) => [Date.parse(point.at), point.buckets ?? []]));
  return { times, step, counts: times.map((at) => points.get(at) ?? []) };
}

/** The same of the runs that are listed, for those who may not see everybody's numbers. */
export function gridOfRuns(runs: Run[], from: number, to: number, step: number, edges: number[]): Grid {
  const first = Math.floor(from / step) * step;
  const times = Array.from({ length: Math.max(1, Math.ceil((to - first) / step)) }, (_, index) => first + index * step);
  const counts = times.map(() => Array<number>(edges.length + 1).fill(0));
  for (const run of runs) {
    if (run.lag_ms === null || !run.end_time) continue;
    const column = counts[Math.floor((Date.parse(run.end_time) - first) / step)];
    if (column) column[rowOf(run.lag_ms, edges)]!++;
  }
  return { times, step, counts };
}

function rowOf(lagMs: number, edges: number[]): number {
  const row = edges.findIndex((edge) => lagMs <= edge * 1_000);
  return row < 0 ? edges.length : row;
}

/** What the rows from `low` to `high` mean, both included. */
export function rangeOf(low: number, high: number, edges: number[]): LagRange {
  return { over: low > 0 ? edges[low - 1]! * 1_000 : undefined, upTo: high < edges.length ? edges[high]! * 1_000 : undefined };
}

/** "100-5000", "100-", "-5000": for the URL. */
export function rangeText({ over, upTo }: LagRange): string | undefined {
  return over === undefined && upTo === undefined ? undefined : `${over ?? ""}-${upTo ?? ""}`;
}

export function readRange(text: string | null): LagRange {
  const found = /^([\d.]*)-([\d.]*)$/.exec(text ?? "");
  const number = (part?: string): number | undefined => (part && Number.isFinite(Number(part)) ? Number(part) : undefined);
  return { over: number(found?.[1]), upTo: number(found?.[2]) };
}

/** The API tells lags in whole ms, so that the edges are wide enough for both. */
export function isInRange(run: { lag_ms: number | null }, { over, upTo }: LagRange): boolean {
  if (over === undefined && upTo === undefined) return true;
  return run.lag_ms !== null && run.lag_ms >= Math.floor(over ?? 0) && run.lag_ms <= Math.ceil(upTo ?? Infinity);
}
