// Numbers over time as charts want them.
import type { Schemas } from "../../api/types";

type Series = Schemas["Series"];
const SECOND = 1_000;

export type Window = { name: string; length: number; step: number };
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** The API keeps minutes for 2 days, and hours for a year. */
export const WINDOWS: Window[] = [
  { name: "1h", length: HOUR, step: MINUTE },
  { name: "6h", length: 6 * HOUR, step: 5 * MINUTE },
  { name: "24h", length: 24 * HOUR, step: 15 * MINUTE },
  { name: "7d", length: 7 * 24 * HOUR, step: HOUR },
];
/** Of one user's runs only hours are kept, for a day. */
export const OWN_WINDOW: Window = { name: "24h", length: 24 * HOUR, step: HOUR };

/** The beginnings of all steps from `from` up to `to`. */
export function steps(from: number, to: number, step: number): number[] {
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.max(0, Math.ceil((to - first) / step)) }, (_, index) => first + index * step);
}

/** How many in each step; steps in which nothing happened have no point. */
export function counts(series: Series[], what: string, times: number[]): number[] {
  const points = new Map(series.find((one) => one.what === what)?.points.map((point) => [Date.parse(point.at), point.n]));
  return times.map((at) => points.get(at) ?? 0);
}

const ENOUGH = 10 * SECOND; // of a step that is not over, to tell a rate

/** Counts as a rate per `per` ms. The step that is not over counts with the time that has passed of it. */
export function rates(values: number[], times: number[], step: number, per: number, now: number): (number | null)[] {
  return values.map((n, index) => {
    const passed = Math.min(step, now - times[index]!);
    return passed < ENOUGH ? null : (n * per) / passed;
  });
}

/** `heat[column][row]` of a histogram, and what its rows are called. Empty rows at the top are left out. */
export function heatOf(series: Series[], edges: number[], times: number[]): { rows: string[]; counts: number[][] } {
  const points = new Map(series.find((one) => one.what === "lag")?.points.map((point) => [Date.parse(point.at), point.buckets ?? []]));
  const all = times.map((at) => points.get(at) ?? []);
  const used = Math.max(8, ...all.map((column) => column.findLastIndex((n) => n > 0) + 1));
  const rows = [...edges.map((edge) => `≤ ${edgeWords(edge)}`), `> ${edgeWords(edges.at(-1) ?? 0)}`].slice(0, used);
  return { rows, counts: all.map((column) => rows.map((_, row) => column[row] ?? 0)) };
}

export function edgeWords(seconds: number): string {
  if (seconds < 1) return `${seconds * 1_000} ms`;
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3_600 ? `${seconds / 60} min` : `${seconds / 3_600} h`;
}

/** The upper edge of the highest bucket with something in it, in ms; null: nothing started. */
export function worstLag(series: Series[], edges: number[]): { ms: number; isBeyond: boolean } | null {
  const buckets = series.find((one) => one.what === "lag")?.points.map((point) => point.buckets ?? []) ?? [];
  const highest = Math.max(-1, ...buckets.map((column) => column.findLastIndex((n) => n > 0)));
  if (highest < 0) return null;
  return { ms: edges[Math.min(highest, edges.length - 1)]! * SECOND, isBeyond: highest >= edges.length };
}
