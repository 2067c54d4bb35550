import assert from "node:assert/strict";
import { test } from "node:test";
import { goodJitter, heaviest, jitterText, meanOf, peaksOf, placesOf, waitAfter, worstWait, type Arrivals } from "./load";

const MINUTE = 60_000;
const MIDNIGHT = Date.parse("2027-01-01T00:00:00Z");
const worker = (id: string, threads: number) => ({ worker_id: id, status: "active" as const, tasks: ["report", "mail"], queues: ["default"], slots: { loop: 1000 }, offer: { slots: { report: threads }, resources: { slots: 1000 } } });
const many = (n: number, task: string): Arrivals => ({ task, queue: "default", seconds: [{ at: MIDNIGHT, n }] });

test("37 runs of a minute on 4 places: the last starts after nine minutes", () => {
  const [peak, ...rest] = peaksOf([many(37, "report"), many(9, "mail")], [worker("a", 4)], new Map([["report", MINUTE], ["mail", MINUTE]]));
  assert.deepEqual([peak!.n, peak!.places, peak!.wait, peak!.at], [37, 4, 9 * MINUTE, MIDNIGHT]);
  assert.equal(rest.length, 0);
});

test("without a known length it only says that there are many more runs than places", () => {
  const [peak] = peaksOf([many(9, "report")], [worker("a", 4)], new Map());
  assert.deepEqual([peak!.wait, peak!.length], [null, null]);
  assert.deepEqual(peaksOf([many(8, "report")], [worker("a", 4)], new Map()), []);
});

test("places are those of workers that take the task and the queue", () => {
  const drained = { ...worker("c", 7), status: "draining" as const };
  assert.equal(placesOf([worker("a", 4), worker("b", 2), drained], "report", "default").places, 6);
  assert.equal(placesOf([worker("a", 4)], "report", "other").places, 0);
});

test("arrivals far enough apart wait for nothing", () => {
  assert.equal(worstWait([0, 10], 10, 1), 0);
  assert.equal(worstWait([4, 0], 10, 1), 6);
  assert.equal(worstWait([0, 1, 2, 3], 10, 2), 8);
});

test("a heavy minute stands out from what is usual around it, not by its number alone", () => {
  const busy = Array.from({ length: 120 }, (_, minute) => ({ at: minute * MINUTE, n: 520 - 4 * minute }));
  assert.equal(heaviest([...busy, { at: 600 * MINUTE, n: 40 }], 5)[0], 600 * MINUTE);
  assert.deepEqual(heaviest(busy.slice(1), 5).filter((at) => at > 6 * MINUTE), []);
});

test("runs that share places are one peak, at the second with the most of them", () => {
  const other = { task: "mail", queue: "default", seconds: [{ at: MIDNIGHT + 30_000, n: 30 }] };
  const same = worker("a", 4);
  const workers = [{ ...same, offer: { slots: {}, resources: { slots: 4 } } }];
  const [peak, ...rest] = peaksOf([many(10, "report"), other], workers, new Map([["report", MINUTE], ["mail", MINUTE]]));
  assert.deepEqual([peak!.n, peak!.at, peak!.of.map((one) => one.task), rest.length], [40, MIDNIGHT + 30_000, ["report", "mail"], 0]);
  assert.equal(peak!.wait, 9 * MINUTE - 30_000);
});

test("jitter spreads, and the least that helps is proposed", () => {
  const [peak] = peaksOf([many(37, "report")], [worker("a", 4)], new Map([["report", 10_000]]));
  assert.ok(waitAfter(peak!, 10 * MINUTE)! < peak!.wait! / 10);
  assert.ok(goodJitter(peak!, 120 * MINUTE) <= 10 * MINUTE);
  assert.equal(goodJitter(peak!, 2 * MINUTE), 2 * MINUTE);
  assert.deepEqual([jitterText(10 * MINUTE), jitterText(120 * MINUTE)], ["10m", "2h"]);
});

test("the mean of a histogram lies within its buckets", () => {
  assert.equal(meanOf([0, 4, 0], [1, 4]), 2_000);
  assert.equal(meanOf([0, 0], [1]), null);
});
