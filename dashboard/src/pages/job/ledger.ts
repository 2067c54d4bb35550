// The cells of the ledger strip: each nominal instant, or each step of time where there are too many.
import type { Schemas } from "../../api/types";
import { stateOf } from "../../states";
import { parts } from "../../times";

export type Occurrence = Schemas["Occurrence"];
export type Bucket = Schemas["OccurrenceHeat"]["buckets"][number];
export type LedgerCell = { at: number; until: number; outcome: string; counts: Record<string, number>; occurrence: Occurrence | null };
export type LedgerRow = { label: string; cells: LedgerCell[] };

export const MOST_CELLS = 800;
/** From the worst to the best: a step of time shows the worst in it. */
export const OUTCOMES = ["missed", "late", "skipped", "coalesced", "waiting", "started"] as const;
const FEW = 10; // cells in a row, on average: else rows are longer

export function countOf(buckets: Bucket[]): number {
  return buckets.reduce((sum, bucket) => sum + OUTCOMES.reduce((n, outcome) => n + bucket[outcome], 0), 0);
}

/** One cell for each occurrence; a time range with one outcome is one cell. The oldest first. */
export function cellsOf(occurrences: Occurrence[]): LedgerCell[] {
  return occurrences
    .map((one) => ({ at: Date.parse(one.scheduled_for), until: Date.parse(one.until ?? one.scheduled_for), outcome: one.outcome, counts: { [one.outcome]: one.count }, occurrence: one }))
    .sort((a, b) => a.at - b.at);
}

export function bucketCells(buckets: Bucket[], step: number): LedgerCell[] {
  return buckets.map((bucket) => {
    const at = Date.parse(bucket.at);
    const counts = Object.fromEntries(OUTCOMES.filter((one) => bucket[one]).map((one) => [one, bucket[one]]));
    return { at, until: at + step, outcome: OUTCOMES.find((one) => bucket[one]) ?? "started", counts, occurrence: null };
  });
}

/** "58 started, 2 late" */
export function countsText(counts: Record<string, number>): string {
  return Object.entries(counts).map(([outcome, n]) => `${n.toLocaleString("en")} ${stateOf(outcome).word}`).join(", ");
}

/** What has happened in all cells together, the worst first. */
export function totals(cells: LedgerCell[]): [string, number][] {
  return OUTCOMES.map((outcome): [string, number] => [outcome, cells.reduce((sum, cell) => sum + (cell.counts[outcome] ?? 0), 0)]).filter(([, n]) => n > 0);
}

/** Rows of an hour, a day, a month or everything: the shortest that are not nearly empty. */
export function rowsOf(cells: LedgerCell[], zone: string): LedgerRow[] {
  for (const period of [hour, day, month]) {
    const rows = grouped(cells, (at) => period(at, zone));
    if (cells.length / rows.length >= FEW) return rows;
  }
  return cells.length ? [{ label: "", cells }] : [];
}

const day = (at: number, zone: string): string => {
  const p = parts(at, zone);
  return `${p.month}-${p.day}`;
};
const hour = (at: number, zone: string): string => `${day(at, zone)} ${parts(at, zone).hour}:00`;
const month = (at: number, zone: string): string => {
  const p = parts(at, zone);
  return `${p.year}-${p.month}`;
};

function grouped(cells: LedgerCell[], labelOf: (at: number) => string): LedgerRow[] {
  const rows: LedgerRow[] = [];
  for (const cell of cells) {
    const label = labelOf(cell.at);
    const last = rows[rows.length - 1];
    if (last?.label === label) last.cells.push(cell);
    else rows.push({ label, cells: [cell] });
  }
  return rows;
}
