import assert from "node:assert/strict";
import { test } from "node:test";
import { createSnippets, editSnippets, literal, yaml } from "./snippets";

const BODY = { task: "hello", name: "it's", schedule: { cron: "0 9 * * *", timezone: "UTC" }, payload: { name: "you", dry: true }, tags: ["a"], rate: null };

test("each says the same, quoted for where it is pasted", () => {
  const all = createSnippets(BODY, "http://127.0.0.1:8470");
  assert.match(all.CLI, /--name 'it'\\''s'/);
  assert.match(all.CLI, /--schedule '0 9 \* \* \*' \\\n {2}--timezone UTC/);
  assert.match(all.CLI, /--tag a \\\n {2}--field rate=null/);
  assert.match(all.curl, /curl -X POST http:\/\/127\.0\.0\.1:8470\/v1\/jobs/);
  assert.match(all.Python, /payload=\{"name": "you", "dry": True\},/);
  assert.match(all.Python, /rate=None,/);
  assert.match(all.YAML, /^set: "my-jobs"\njobs:\n {2}- key: "CHOOSE-A-KEY"\n {4}task: "hello"\n/);
});

test("a schedule that is more than a time is an object", () => {
  const cli = (schedule: object): string => createSnippets({ task: "x", schedule }, "http://h").CLI;
  assert.match(cli({ cron: "30 2 * * *", dst_gap: "skip" }), /--schedule '\{"cron"/);
  assert.match(cli({ every: "5m" }), /--schedule 'every 5m'$/);
});

test("an edit names the version that it is for", () => {
  const all = editSnippets("id", 3, { name: "x" }, BODY, "http://h");
  assert.match(all.CLI, /^oncue jobs edit id --if-match 3 \\\n {2}--name x$/);
  assert.match(all.curl, /-H 'If-Match: "3"'/);
  assert.match(all.Python, /client\.jobs\.edit\(\n {8}"id",\n {8}if_match=3,\n {8}name="x",\n {4}\)/);
});

test("Python's words for JSON's", () => assert.equal(literal([null, true, { a: 1 }]), '[None, True, {"a": 1}]'));
test("names that YAML would read as something else are quoted", () => assert.equal(yaml({ on: 1, "a b": 2 }), '"on": 1\n"a b": 2\n'));
