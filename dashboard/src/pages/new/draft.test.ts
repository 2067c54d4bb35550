import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../api/types";
import { bodyOf, changesOf, draftOf, emptyDraft, rebased } from "./draft";

const JOB = {
  task: "hello", name: "greeting", schedule: { cron: "0 9 * * *", timezone: "Europe/Berlin", dst_gap: "shift", dst_fold: "first" }, payload: { name: "you" },
  queue: "default", priority: "normal", tags: ["a", "b"], max_retries: 3, retry: { factor: 2 }, timeout: "1h", key: "k", preemptible: false, labels: [], notify: null,
} as unknown as Job;

test("a body has only what was filled in", () => {
  const draft = { ...emptyDraft("UTC"), task: "hello", fields: { tags: "a, b", max_retries: "0", name: "" } };
  assert.deepEqual(bodyOf(draft), { task: "hello", tags: ["a", "b"], max_retries: 0, schedule: { cron: "0 9 * * 1-5", timezone: "UTC" } });
  assert.deepEqual(bodyOf({ ...emptyDraft("UTC"), task: "x", kind: "now" }), { task: "x" });
  assert.deepEqual(bodyOf({ ...emptyDraft("Asia/Tokyo"), task: "x", kind: "every" }).schedule, { every: "5m" });
});

test("an edit that changes nothing sends nothing", () => assert.deepEqual(changesOf(draftOf(JOB), draftOf(JOB)), {}));

test("an edit sends what differs, and null for what was emptied", () => {
  const draft = draftOf(JOB);
  const edited = { ...draft, when: { ...draft.when, cron: "0 7 * * *" }, fields: { ...draft.fields, name: "", tags: "" } };
  assert.deepEqual(changesOf(draft, edited), { name: null, tags: [], schedule: { cron: "0 7 * * *", timezone: "Europe/Berlin", dst_gap: "shift", dst_fold: "first" } });
});

test("my changes go on top of theirs", () => {
  const before = draftOf(JOB);
  const mine = { ...before, fields: { ...before.fields, name: "mine" } };
  const theirs = draftOf({ ...JOB, name: "theirs", priority: "high" } as Job);
  const both = rebased(before, mine, theirs);
  assert.equal(both.fields.name, "mine");
  assert.equal(both.fields.priority, "high");
  assert.deepEqual(changesOf(theirs, both), { name: "mine" });
});

test("a copy has no key", () => assert.equal(bodyOf(draftOf(JOB, true)).key, undefined));
