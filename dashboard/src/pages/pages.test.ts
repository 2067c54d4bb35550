import assert from "node:assert/strict";
import { test } from "node:test";
import { matched, pageOf } from "./pages";

test("a pattern gives what it found, decoded", () => {
  assert.deepEqual(matched("/jobs/:id/:tab", "/jobs/7/runs"), { id: "7", tab: "runs" });
  assert.deepEqual(matched("/queues/:name", "/queues/a%2Fb%20c"), { name: "a/b c" });
  assert.deepEqual(matched("/queues/:name", "/queues/100%"), { name: "100%" });
  assert.equal(matched("/jobs/:id", "/jobs/"), null);
  assert.equal(matched("/jobs/:id", "/jobs/7/runs"), null);
});

test("the edit form is no tab of a job", () => {
  assert.equal(pageOf("/jobs/7/edit")?.page.pattern, "/jobs/:id/edit");
  assert.equal(pageOf("/nowhere"), null);
});
