import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { shared } from "./sharing";

test("the same question at the same time is asked once, and later again", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let calls = 0;
  const ask = (key: string) => shared(key, async () => ++calls, new AbortController().signal);
  assert.deepEqual(await Promise.all([ask("a"), ask("a"), ask("b")]), [1, 1, 2]);
  mock.timers.tick(1);
  assert.equal(await ask("a"), 3);
  mock.timers.reset();
});

test("a call is given up when the last who asked gives up", () => {
  const readers = [new AbortController(), new AbortController()];
  let signal: AbortSignal | undefined;
  for (const reader of readers) void shared("c", async (given) => void (signal = given), reader.signal);
  readers[0]!.abort();
  assert.equal(signal!.aborted, false);
  readers[1]!.abort();
  assert.equal(signal!.aborted, true);
});

test("who asks right after the last one gave up asks anew", async () => {
  const ask = (signal: AbortSignal): Promise<string> => Promise.resolve().then(() => (signal.aborted ? "given up" : "answered"));
  const first = new AbortController();
  const given = shared("again", ask, first.signal);
  first.abort();

  assert.equal(await shared("again", ask, new AbortController().signal), "answered");
  assert.equal(await given, "given up");
});
