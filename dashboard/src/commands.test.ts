import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleOf, taskOptions } from "./commands";

test("an example is of a task that needs nothing, or gives it what it needs", () => {
  const needy = { name: "charge", workers: 1, schema: { properties: { order: { type: "integer" }, to: { type: "string" }, note: { type: "string" } }, required: ["order", "to"] } };
  const free = { name: "report", workers: 1, schema: null };
  assert.equal(taskOptions(exampleOf([needy])!), `--task charge --payload '{"order":1,"to":"text"}'`);
  assert.equal(taskOptions(exampleOf([needy, { ...free, workers: 0 }, free])!), "--task report");
  assert.equal(exampleOf([needy, { ...free, workers: 0 }])!.task, "charge");
  const url = { anyOf: [{ type: "string" }, { $ref: "#/$defs/Secret" }] };
  const builtIn = ["http", "notify"].map((name) => ({ name, workers: 1, schema: { properties: { url }, required: ["url"] } }));
  assert.equal(exampleOf([...builtIn, { ...needy, workers: 0 }])!.task, "charge");
  assert.equal(taskOptions(exampleOf(builtIn)!), `--task http --payload '{"url":"https://example.com"}'`);
  assert.equal(exampleOf([]), null);
  const node = { type: "object", properties: { next: { anyOf: [{ $ref: "#/$defs/Node" }, { type: "null" }] }, self: { $ref: "#/$defs/Node" } }, required: ["next"] };
  const nested = { $ref: "#/$defs/P", $defs: { Node: node, P: { properties: { node: { $ref: "#/$defs/Node" }, n: { type: "number", minimum: 5 }, kind: { enum: ["a", "b"] }, at: { type: "string", format: "date" }, ids: { type: "array", items: { type: "integer" }, minItems: 1 } }, required: ["node", "n", "kind", "at", "ids"] } } };
  assert.deepEqual(exampleOf([{ name: "nested", workers: 1, schema: nested }])!.payload, { node: { next: null }, n: 5, kind: "a", at: "2030-01-31", ids: [1] });
});
