import assert from "node:assert/strict";
import { test } from "node:test";
import type { WholeRun } from "../../api/types";
import { barsOf } from "./bars";
import { filtered, LogLines } from "./loglines";
import { sentenceOf } from "./sentence";

const START = Date.parse("2026-01-01T00:00:00Z");
const iso = (ms: number): string => new Date(START + ms).toISOString();
const run = (status: string, more: Partial<WholeRun> = {}): WholeRun =>
  ({ status, scheduled_for: iso(-3_600_000), due_time: iso(0), start_time: iso(10), end_time: null, attempt_number: 1, executor_name: "w-7", lag_ms: 10, duration_ms: null, error_type: null, attempts: [], ...more }) as unknown as WholeRun;
const attempt = (number: number, from: number, to: number) => ({ number, start_time: iso(from), end_time: iso(to), outcome: "failed" });

test("every status has a sentence", () => {
  assert.equal(sentenceOf(run("dead", { attempt_number: 4, error_type: "TimeoutError" }), START), "Dead after 4 attempts, TimeoutError, worker w-7.");
  assert.equal(sentenceOf(run("running"), START + 5_010), "Running for 5 s on w-7, started 10 ms after it was due.");
  assert.equal(sentenceOf(run("succeeded", { duration_ms: 1_200 }), START), "Succeeded after 1.2 s on w-7, started 10 ms after it was due.");
  assert.equal(sentenceOf(run("queued"), START + 3_000), "Waiting for 3 s: it has not started.");
  assert.equal(sentenceOf(run("scheduled"), START - 60_000), "Due in 1 min.");
  assert.equal(sentenceOf(run("cancelled", { start_time: null }), START), "Cancelled before it started.");
});

test("bars begin where the one before ended, and a running attempt grows", () => {
  const bars = barsOf(run("running", { attempt_number: 2, start_time: iso(900), attempts: [attempt(1, 10, 400)] as never }), START + 2_000);
  assert.deepEqual(bars.map((bar) => [bar.number, bar.waitedFrom - START, bar.from - START, bar.to - START, bar.state]), [[1, 0, 10, 400, "failed"], [2, 400, 900, 2_000, "running"]]);
});

test("the last attempt took as long as the run says, although its times are cut to milliseconds", () => {
  const [first, last] = barsOf(run("succeeded", { attempt_number: 2, duration_ms: 0, attempts: [attempt(1, 10, 400), attempt(2, 900, 901)] as never }), 0);
  assert.deepEqual([first!.took, last!.took], [390, 0]);
});

test("pieces of a log become lines with levels", () => {
  const log = new LogLines();
  log.add("2026-01-01T00:00:00.000Z INFO be");
  log.add("gin\n2026-01-01T00:00:01.000Z ERROR broke\nTraceback: <b>\n── start 2, 2026-01-01T00:00:02.000Z ──\nprinted");
  assert.deepEqual(log.lines.map((line) => [line.level, line.text]), [["info", "begin"], ["error", "broke"], ["error", "Traceback: <b>"], [null, "── start 2 ──"]]);
  assert.equal(log.lines[3]!.at, "2026-01-01T00:00:02.000Z");
  log.finish();
  assert.equal(log.lines[4]!.text, "printed");
  log.add("Traceback (most recent call last):\n  File\n");
  assert.deepEqual(log.lines.slice(5).map((line) => line.level), ["error", "error"]);
  assert.equal(filtered(log.lines, ["error"], "").length, 4);
  assert.equal(filtered(log.lines, [], "BEGIN").length, 1);
});
