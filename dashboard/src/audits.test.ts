import assert from "node:assert/strict";
import { test } from "node:test";
import { auditWords, tellsOfChange } from "./audits";

test("a line says who did what to what", () => {
  assert.equal(auditWords({ user_id: "root", action: "queue.pause", object_id: null, detail: { queue: "mail" } }), "root: queue pause mail");
  assert.equal(auditWords({ user_id: "anna", action: "job.edit", object_id: "01a1eb37-c6b5-753b-bc47-2c2a8dc8f013", detail: null }), "anna: job edit …8dc8f013");
  assert.equal(auditWords({ user_id: null, action: "job.create_many", object_id: null, detail: null }), "somebody: job create many");
});

test("sign-ins and single runs are no marks", () => {
  assert.deepEqual(["session.create", "run.cancel", "job.run_now", "job.edit", "worker.drain"].filter(tellsOfChange), ["job.edit", "worker.drain"]);
});
