import assert from "node:assert/strict";
import { test } from "node:test";
import { draftText, readDraft, withoutSecrets } from "./address";
import { bodyOf, emptyDraft } from "./draft";

const draft = {
  ...emptyDraft("Europe/Berlin"),
  task: "report",
  payload: { to: "a&b=c#d", rows: 3, deep: { list: [1, { x: null }] } },
  fields: { name: "täglich & mehr", tags: "a, b", retry: '{"factor": 2}' },
};

test("a draft that was read back means the same job", () => {
  for (const kind of ["now", "at", "cron", "every", "calendar"] as const) {
    const one = { ...draft, kind, when: { ...draft.when, at: "in 10m" }, schedule: { ...draft.schedule, jitter: "5m", dst_gap: "skip" } };
    assert.deepEqual(bodyOf(readDraft(`#${draftText(one)}`)!), bodyOf(one));
  }
});

test("secrets stay out, references to secrets do not", () => {
  const payload = { user: "ada", password: "hunter2", headers: { Authorization: "Bearer x", Accept: "text/html" }, api_key: { secret: "crm" }, list: [{ token: "y" }] };
  assert.deepEqual(withoutSecrets(payload), { user: "ada", headers: { Accept: "text/html" }, api_key: { secret: "crm" }, list: [{}] });
  assert.ok(!draftText({ ...draft, payload })!.includes("hunter2"));
});

test("an address without a draft, with a broken one and a draft that is too long", () => {
  assert.equal(readDraft(""), null);
  assert.equal(readDraft("#main"), null);
  assert.deepEqual(readDraft("#every=5m&payload={broken")!.payload, {});
  assert.equal(draftText({ ...draft, payload: { text: "x".repeat(7_000) } }), null);
});
