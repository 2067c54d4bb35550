import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleOf, taskOptions } from "./commands";

test("an example is of a task that needs nothing, or gives it what it needs", () => {
  const needy = { name: "charge", workers: 1, schema: { properties: { order: { type: "integer" }, to: { type: "string" }, note: { type: "string" } }, required: ["order", "to"] } };
  const free = { name: "report", workers: 1, schema: null };
  assert.equal(taskOptions(exampleOf([needy])!), `--task charge --payload '{"order":1,"to":"text"}'`);
  assert.equal(taskOptions(exampleOf([needy, { ...free, workers: 0 }, free])!), "--task report");
  assert.equal(exampleOf([needy, { ...free, workers: 0 }])!.task, "charge");
  assert.equal(exampleOf([]), null);
});
