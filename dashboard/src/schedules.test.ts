import assert from "node:assert/strict";
import { test } from "node:test";
import { command } from "./commands";
import { cronWords } from "./schedules";

test("common cron expressions have words, all others are shown as they are", () => {
  const said: Record<string, string> = {
    "*/5 * * * *": "every 5 min", "* * * * *": "every minute", "0 2 * * *": "daily 02:00", "30 9 * * 1-5": "Mon–Fri 09:30",
    "5 * * * *": "hourly at :05", "0 7 * * 0": "Sun 07:00", "0 2 1 * *": "day 1 of the month 02:00", "0 2 * * 1,3": "Mon, Wed 02:00",
    "0 */3 * * *": "every 3 h at :00", "*/10 9-15 * * 1-5": "every 10 min, 09:00–15:59, Mon–Fri", "30 2 * * SUNL": "last Sun of the month 02:30",
    "@hourly": "hourly at :00", "0 6,18 * * *": "daily 06:00, 18:00", "0 0 L * *": "last day of the month 00:00",
  };
  for (const [cron, words] of Object.entries(said)) assert.equal(cronWords(cron), words);
  for (const cron of ["*/5 9 * * *", "0 2 1 1 *", "0 0 1 * 1", "0 0 * * 1#2", "0 0 * * 9", "1-5 * * * *", "0 0 0 * * *"]) assert.equal(cronWords(cron), cron);
});

test("commands are quoted for a shell", () => {
  assert.equal(command("jobs pause", ["it's; rm -rf /", "a-b"]), "oncue jobs pause 'it'\\''s; rm -rf /' a-b");
  assert.equal(command("jobs pause", { tag: "nightly", task: undefined, name_prefix: "a b" }), "oncue jobs pause --all --tag nightly --prefix 'a b'");
});
