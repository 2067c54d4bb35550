import assert from "node:assert/strict";
import { test } from "node:test";
import type { PulseEvent } from "../../live";
import { withPulse, type Beat } from "./beats";

const pulse = (second: number, started: number, due = 0): PulseEvent => ({ at: new Date(second * 1_000).toISOString(), started_per_second: started, due, running: 0 }) as PulseEvent;

test("pulses of ten seconds are one beat: the mean of rates, the most of depths", () => {
  const beats = [pulse(10, 2, 5), pulse(11, 4, 1), pulse(20, 9)].reduce(withPulse, [] as Beat[]);
  assert.deepEqual(beats.map((one) => [one.at, one.started, one.due]), [[10_000, 3, 5], [20_000, 9, 0]]);
});

test("what is older than an hour goes", () => {
  assert.equal([pulse(0, 1), pulse(4_000, 1)].reduce(withPulse, [] as Beat[]).length, 1);
});
