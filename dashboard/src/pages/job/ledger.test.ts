import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketCells, cellsOf, countOf, countsText, rowsOf, totals, type Bucket, type Occurrence } from "./ledger";

const HOUR = 3_600_000;
const START = Date.parse("2026-11-17T00:00:00Z");
const every = (ms: number, n: number): Occurrence[] =>
  Array.from({ length: n }, (_, index) => ({ scheduled_for: new Date(START + index * ms).toISOString(), outcome: "started", reason: null, run_id: null, lag_ms: 0, until: null, count: 1 }) as Occurrence);

test("rows are as long as they need to be", () => {
  assert.equal(rowsOf(cellsOf(every(HOUR / 12, 288)), "UTC").length, 24);
  assert.equal(rowsOf(cellsOf(every(HOUR, 168)), "UTC").length, 7);
  assert.deepEqual(rowsOf(cellsOf(every(24 * HOUR, 40)), "UTC").map((row) => row.label), ["2026-11", "2026-12"]);
  assert.equal(rowsOf(cellsOf(every(HOUR, 3)), "UTC").length, 1);
  assert.deepEqual(rowsOf([], "UTC"), []);
});

test("a step shows the worst that is in it, and all counts", () => {
  const bucket = { at: "2026-11-17T00:00:00Z", started: 5, late: 1, waiting: 0, skipped: 2, coalesced: 0, missed: 0 } as Bucket;
  const [cell] = bucketCells([bucket], HOUR);
  assert.equal(cell!.outcome, "late");
  assert.equal(countsText(cell!.counts), "1 late, 2 skipped, 5 started");
  assert.equal(countOf([bucket]), 8);
});

test("a time range counts each of its occurrences", () => {
  const range = { ...every(1, 1)[0]!, outcome: "missed", count: 12, until: "2026-11-17T02:00:00Z" } as Occurrence;
  assert.deepEqual(totals(cellsOf([range, ...every(HOUR, 2)])), [["missed", 12], ["started", 2]]);
});
