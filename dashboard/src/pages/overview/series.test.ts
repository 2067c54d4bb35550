import assert from "node:assert/strict";
import { test } from "node:test";
import type { Schemas } from "../../api/types";
import { counts, heatOf, rates, steps, worstLag } from "./series";

const MINUTE = 60_000;
const at = (minute: number): string => new Date(minute * MINUTE).toISOString();
const point = (minute: number, n: number, buckets: number[] | null = null) => ({ at: at(minute), n, buckets }) as unknown as Schemas["SeriesPoint"];
const series = (what: string, points: Schemas["SeriesPoint"][]) => [{ what, name: null, total: 0, points }] as unknown as Schemas["Series"][];

test("steps without a point are zero", () => {
  const times = steps(10 * MINUTE + 1, 14 * MINUTE, MINUTE);
  assert.deepEqual(times, [11, 12, 13].map((minute) => minute * MINUTE));
  assert.deepEqual(counts(series("dead", [point(12, 7)]), "dead", times), [0, 7, 0]);
});

test("the minute that is not over is a rate of what has passed, and unknown at its beginning", () => {
  const times = [10 * MINUTE, 11 * MINUTE];
  assert.deepEqual(rates([60, 30], times, MINUTE, 1_000, 11 * MINUTE + 30_000), [1, 1]);
  assert.deepEqual(rates([60, 3], times, MINUTE, 1_000, 11 * MINUTE + 2_000), [1, null]);
});

test("a heat has the rows that are used, at least eight", () => {
  const edges = [0.001, 0.01, 0.1, 1, 2, 5, 15, 60, 300, 3600];
  const few = heatOf(series("lag", [point(1, 1, [1, 0, 0])]), edges, [MINUTE]);
  assert.equal(few.rows.length, 8);
  const many = heatOf(series("lag", [point(1, 1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4])]), edges, [MINUTE]);
  assert.equal(many.rows.at(-1), "> 1 h");
  assert.deepEqual(many.counts[0]!.at(-1), 4);
});

test("the worst lag is the edge of the highest bucket", () => {
  assert.deepEqual(worstLag(series("lag", [point(1, 2, [1, 0, 0]), point(2, 1, [0, 1, 0])]), [0.001, 0.01]), { ms: 10, isBeyond: false });
  assert.deepEqual(worstLag(series("lag", [point(1, 2, [0, 0, 1])]), [0.001, 0.01]), { ms: 10, isBeyond: true });
  assert.equal(worstLag(series("lag", []), [0.001]), null);
});
