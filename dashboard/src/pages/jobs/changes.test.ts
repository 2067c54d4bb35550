import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../api/types";
import type { RunEvent } from "../../live";
import { withJobEvents, withRunEvents } from "./changes";

const job = (id: string): Job => ({ job_id: id, status: "active", recent: [{ run_id: "old", status: "succeeded" }], last_run: null }) as unknown as Job;
const run = (id: string, job_id: string, status: string, start_time: string): RunEvent => ({ run_id: id, job_id, status, start_time }) as unknown as RunEvent;

test("an ended run joins the strip once, and the strip keeps its length", () => {
  const ended = run("new", "1", "dead", "2026-01-01T00:00:00Z");
  const [changed] = withRunEvents(withRunEvents([job("1")], [ended], 2), [ended], 2);
  assert.deepEqual(changed!.recent!.map((one) => one.run_id), ["new", "old"]);
  assert.equal(withRunEvents([changed!], [run("newest", "1", "succeeded", "2026-01-02T00:00:00Z")], 2)[0]!.recent!.length, 2);
});

test("a late event of an earlier run does not become the last run", () => {
  const [later] = withRunEvents([job("1")], [run("b", "1", "running", "2026-01-02T00:00:00Z")], 20);
  const [same] = withRunEvents([later!], [run("a", "1", "succeeded", "2026-01-01T00:00:00Z")], 20);
  assert.equal(same!.last_run!.run_id, "b");
});

test("others stay the same objects", () => {
  const jobs = [job("1"), job("2")];
  const changed = withJobEvents(jobs, [{ job_id: "2", status: "paused" } as never]);
  assert.equal(changed[0], jobs[0]);
  assert.equal(changed[1]!.status, "paused");
});
