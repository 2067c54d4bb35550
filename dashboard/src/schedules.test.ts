import assert from "node:assert/strict";
import { test } from "node:test";
import { command } from "./commands";
import { cronWords } from "./schedules";

test("common cron expressions have words, all others are shown as they are", () => {
  const said = ["*/5 * * * *", "* * * * *", "0 2 * * *", "30 9 * * 1-5", "5 * * * *", "0 7 * * 0", "0 2 1 * *", "0 2 * * 1,3", "*/5 9 * * *"].map(cronWords);
  assert.deepEqual(said, ["every 5 min", "every minute", "daily 02:00", "Mon–Fri 09:30", "hourly at :05", "Sun 07:00", "0 2 1 * *", "0 2 * * 1,3", "*/5 9 * * *"]);
});

test("commands are quoted for a shell", () => {
  assert.equal(command("jobs pause", ["it's; rm -rf /", "a-b"]), "oncue jobs pause 'it'\\''s; rm -rf /' a-b");
  assert.equal(command("jobs pause", { tag: "nightly", task: undefined, name_prefix: "a b" }), "oncue jobs pause --all --tag nightly --prefix 'a b'");
});
