import assert from "node:assert/strict";
import { test } from "node:test";
import type { Queue, Worker } from "../../api/types";
import { kindsOf, matrix, onlyBy, roundUp, teamsOf, type Row } from "./fit";

const SIZE = { cpu: 0, memory_mb: 0, slots: 1 };

function worker(name: string, more: object = {}, offer: object = {}): Worker {
  const offered = { tasks: ["send"], queues: ["mail"], labels: [], resources: { cpu: 2, memory_mb: 4_000, slots: 10 }, slots: {}, ...offer };
  return { worker_id: name, name, status: "active", slots: { loop: 10, thread: 2 }, free_slots: { loop: 7, thread: 0 }, resources_used: { cpu: 0, memory_mb: 1_000 }, offer: offered, ...more } as unknown as Worker;
}

function queue(classes: object[]): Queue[] {
  return [{ name: "mail", paused_since: null, classes: classes.map((one) => ({ task: "send", priority: "normal", labels: [], resources: SIZE, depth: 1, due: 1, ...one })) }] as unknown as Queue[];
}

function verdicts(classes: object[], workers: Worker[]): string[] {
  return matrix(kindsOf(queue(classes)), teamsOf(workers)).map((row: Row) => row.fits.map((fit) => fit.verdict).join(" "));
}

test("the first thing that a worker lacks is the reason", () => {
  const work = [{ labels: ["gpu"], resources: { ...SIZE, memory_mb: 8_000 } }];
  assert.deepEqual(verdicts(work, [worker("a", {}, { tasks: [] })]), ["no_task"]);
  assert.deepEqual(verdicts(work, [worker("a", {}, { queues: ["x"] })]), ["no_queue"]);
  assert.deepEqual(verdicts(work, [worker("a")]), ["no_label"]);
  assert.deepEqual(verdicts(work, [worker("a", {}, { labels: ["gpu"] })]), ["too_big"]);
});

test("full by slots or by memory; draining and silent workers take nothing", () => {
  assert.deepEqual(verdicts([{}], [worker("a")]), ["can"]);
  assert.deepEqual(verdicts([{}], [worker("a", {}, { slots: { send: 2 } })]), ["full"]);
  assert.deepEqual(verdicts([{ resources: { ...SIZE, memory_mb: 3_500 } }], [worker("a")]), ["full"]);
  assert.deepEqual(verdicts([{}], [worker("a", { status: "draining" }), worker("b", { status: "no_heartbeat" })]), ["draining no_heartbeat"]);
});

test("what nobody can run comes first, and priorities are one kind", () => {
  const rows = matrix(kindsOf(queue([{ due: 9 }, { priority: "high", due: 2 }, { labels: ["gpu"], due: 1 }])), teamsOf([worker("a"), worker("b")]));
  assert.deepEqual(rows.map((row) => [row.verdict, row.kind.due, row.fits.length]), [["nobody", 1, 1], ["runs", 11, 1]]);
  assert.equal(rows[1]!.fits[0]!.word, "14 free");
});

test("draining the only worker for some work is told", () => {
  const kinds = kindsOf(queue([{}, { depth: 0, labels: [] }]));
  assert.equal(onlyBy(worker("a"), kinds, [worker("a"), worker("b")]).length, 0);
  assert.equal(onlyBy(worker("a"), kinds, [worker("a"), worker("b", { status: "draining" })]).length, 1);
});

test("sizes are compared as the server does", () => {
  assert.deepEqual([0, 1, 16, 17, 33, 100, 4_000, 4_097].map(roundUp), [0, 1, 16, 18, 36, 104, 4_096, 4_608]);
});
