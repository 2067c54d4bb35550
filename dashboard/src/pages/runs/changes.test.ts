import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run } from "../../api/types";
import type { RunEvent } from "../../live";
import { isWanted, withRunEvents } from "./changes";

const at = (second: number): string => `2026-01-01T00:00:${String(second).padStart(2, "0")}.000Z`;
const run = (run_id: string, status: string, scheduled: number, ended: number | null = null): Run =>
  ({ run_id, status, scheduled_for: at(scheduled), end_time: ended === null ? null : at(ended) }) as unknown as Run;
const event = (...args: Parameters<typeof run>): RunEvent => run(...args) as unknown as RunEvent;
const ids = (runs: Run[]): string => runs.map((one) => one.run_id).join("");
const all = (): boolean => true;
const shown = [run("a", "running", 1), run("b", "queued", 2), run("c", "dead", 0, 9), run("d", "succeeded", 0, 5)];

test("a run that starts goes to the running ones, one that ends to the top of the ended ones", () => {
  assert.equal(ids(withRunEvents(shown, [event("b", "running", 2)], all, true)), "abcd");
  assert.equal(ids(withRunEvents(shown, [event("a", "succeeded", 1, 10)], all, true)), "bacd");
});

test("a new run appears at its place, unless that is beyond what is loaded", () => {
  assert.equal(ids(withRunEvents(shown, [event("x", "running", 0)], all, false)), "xabcd");
  assert.equal(ids(withRunEvents(shown, [event("x", "succeeded", 0, 3)], all, false)), "abcd");
  assert.equal(ids(withRunEvents(shown, [event("x", "succeeded", 0, 3)], all, true)), "abcdx");
});

test("a run that no longer matches leaves, and nothing else changes", () => {
  assert.equal(ids(withRunEvents(shown, [event("a", "dead", 1, 10)], (one) => one.status === "running", true)), "bcd");
  assert.equal(withRunEvents(shown, [event("x", "dead", 1, 1)], () => false, true), shown);
});

test("events are matched as the API filters", () => {
  const dead = { ...event("a", "dead", 1, 10), task: "mail", error_type: "TimeoutError", trigger: "schedule" } as RunEvent;
  assert.ok(isWanted(dead, { status: "dead,expired", task: "mail", error_type: "TimeoutError" }));
  assert.ok(!isWanted(dead, { status: "succeeded" }));
  assert.ok(isWanted(dead, { ended_after: at(10), ended_before: at(11) }));
  assert.ok(!isWanted(dead, { ended_before: at(10) }));
  assert.ok(!isWanted(event("b", "running", 1), { ended_after: at(0) }));
});
