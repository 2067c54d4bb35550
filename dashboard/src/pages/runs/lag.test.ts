import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run } from "../../api/types";
import { EDGES, gridOfRuns, gridOfSeries, isInRange, rangeOf, rangeText, readRange, rowNames } from "./lag";
import { waitedFor, waitsOf, type Known } from "./waits";

const START = Date.parse("2026-01-01T00:00:00Z");
const iso = (ms: number): string => new Date(START + ms).toISOString();
const run = (run_id: string, lag_ms: number, more: Partial<Run> = {}): Run =>
  ({ run_id, job_id: run_id, lag_ms, queue: "mail", due_time: iso(0), start_time: iso(lag_ms), end_time: iso(lag_ms + 100), trigger: "schedule", executor_id: "w", ...more }) as Run;
const nothing: Known = { runs: [], workers: [], resumed: [] };

test("steps without a point are empty columns", () => {
  const answer = { step: "1m", start_time: iso(0), end_time: iso(180_000), series: [{ points: [{ at: iso(60_000), buckets: [0, 3] }] }] };
  assert.deepEqual(gridOfSeries(answer as never), { times: [START, START + 60_000, START + 120_000], step: 60_000, counts: [[], [0, 3], []] });
});

test("runs are counted where they ended, by how late they began", () => {
  const grid = gridOfRuns([run("a", 1), run("b", 100), run("c", 7_200_000)], START, START + 120_000, 60_000, EDGES);
  assert.equal(grid.counts[0]![0], 1);
  assert.equal(grid.counts[0]![6], 1);
  assert.equal(grid.counts.flat().reduce((sum, n) => sum + n), 2); // the last one ended outside
});

test("a box is a range of lags, and the URL keeps it", () => {
  assert.equal(rowNames(EDGES).length, EDGES.length + 1);
  for (const [low, high] of [[0, 3], [7, 9], [15, 16], [0, 16]] as const) {
    const range = rangeOf(low, high, EDGES);
    assert.deepEqual(readRange(rangeText(range) ?? null), range);
  }
  assert.ok(isInRange(run("a", 100), rangeOf(7, 9, EDGES)));
  assert.ok(!isInRange(run("a", 99), rangeOf(7, 9, EDGES)));
  assert.deepEqual(readRange("nonsense"), { over: undefined, upTo: undefined });
});

test("what a late run waited for", () => {
  assert.match(waitedFor(run("a", 20), nothing), /on time/);
  assert.match(waitedFor(run("a", 6_000), { ...nothing, resumed: [{ queue: "mail", at: START + 6_005 }] }), /paused/);
  assert.doesNotMatch(waitedFor(run("a", 6_000), { ...nothing, resumed: [{ queue: "other", at: START + 5_000 }] }), /paused/);
  assert.match(waitedFor(run("a", 6_000), { ...nothing, workers: [{ worker_id: "w", started_at: iso(5_000) }] }), /No worker/);
  assert.match(waitedFor(run("a", 6_000), { ...nothing, runs: [run("b", 0, { job_id: "a", end_time: iso(5_990) })] }), /same job/);
  assert.match(waitedFor(run("a", 6_000), nothing), /free slot/);
});

test("the most frequent reason first", () => {
  const [first] = waitsOf([run("a", 9_000), run("b", 20), run("c", 30)], nothing);
  assert.equal(first!.runs.length, 2);
  assert.equal(first!.worst, 30);
});
