import assert from "node:assert/strict";
import { test } from "node:test";
import { parseObject, patched } from "./patching";

test("a patch changes what it names, removes what is null, and merges objects", () => {
  const payload = { to: "a", opts: { retry: 1, deep: true }, list: [1, 2] };
  assert.deepEqual(patched(payload, { to: "b", opts: { retry: null, more: 2 }, list: [3] }), { to: "b", opts: { deep: true, more: 2 }, list: [3] });
  assert.deepEqual(payload.opts, { retry: 1, deep: true });
  assert.deepEqual(patched(null, { a: { b: null, c: 1 } }), { a: { c: 1 } });
});

test("a payload must be an object", () => {
  assert.deepEqual(parseObject("{\"a\": 1}"), { ok: true, value: { a: 1 } });
  for (const text of ["", "[1]", "null", "{a: 1}", "3"]) assert.equal(parseObject(text).ok, false, text);
});
