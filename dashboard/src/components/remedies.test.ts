import assert from "node:assert/strict";
import { test } from "node:test";
import { remedyOf } from "./remedies";
import type { Link } from "./WhyChain";

const link = (reason: string, more: object = {}, run: object | null = null): Link => ({ why: { reason, holder: null, ...more }, run }) as Link;

test("the remedy is about the root of the chain", () => {
  assert.equal(remedyOf(link("running", {}, { run_id: "r1", job_id: "j1", queue: "default" }), { job: "j0" })?.command, "oncue runs cancel r1");
  assert.equal(remedyOf(link("paused"), { job: "j0" })?.command, "oncue jobs resume j0");
  assert.equal(remedyOf(link("paused", {}, { run_id: "r1", job_id: "j1", queue: "q" }), { job: "j0" })?.command, "oncue jobs resume j1");
});

test("what was cancelled and goes on is not to be cancelled again", () => {
  assert.equal(remedyOf(link("running", {}, { run_id: "r1", job_id: "j1", queue: "default", status: "cancelling" }), {})?.command, "oncue workers list");
});

test("a queue in a command is quoted for a shell", () => {
  assert.match(remedyOf(link("no_worker", {}, { queue: "a; rm -rf ~" }), {})!.command, /--queues 'a; rm -rf ~'$/);
});

test("what runs or is not due needs nothing", () => {
  assert.equal(remedyOf(link("running"), { job: "j0" }), null);
  assert.equal(remedyOf(link("not_due"), { job: "j0" }), null);
});
