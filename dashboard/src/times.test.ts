import assert from "node:assert/strict";
import { test } from "node:test";
import { clock, duration, exact, readTime, relative, shortDuration, spanMs } from "./times";

const AT = Date.parse("2026-03-29T00:30:00.120Z");

test("durations have two units at most", () => {
  const shown = [0, 38, 999, 1_200, 9_000, 59_000, 243_000, 7_500_000, 3 * 86_400_000 + 4 * 3_600_000].map(duration);
  assert.deepEqual(shown, ["0 ms", "38 ms", "999 ms", "1.2 s", "9 s", "59 s", "4 min 3 s", "2 h 5 min", "3 d 4 h"]);
});

test("in narrow places they have one", () => {
  assert.deepEqual([38, 243_000, 7_500_000].map(shortDuration), ["38 ms", "4 min", "2 h"]);
});

test("an address has a time or nothing", () => {
  const nothing = ["", null, "9e99", "8640000000000000", "-5", "9999-12-31T00:00:00Z", "constructor"];
  assert.deepEqual(["1000", "2026-11-18T00:00:00Z"].map(readTime), [1_000, Date.UTC(2026, 10, 18)]);
  for (const text of nothing) assert.equal(readTime(text), null);
});

test("a step is read in its unit", () => {
  assert.deepEqual(["30s", "5m", "2h", "1d", "soon"].map(spanMs), [30_000, 300_000, 7_200_000, 86_400_000, 0]);
});

test("relative times say the direction", () => {
  assert.equal(relative(AT + 240_000, AT), "in 4 min");
  assert.equal(relative(AT - 3_000, AT), "3 s ago");
  assert.equal(relative(AT + 400, AT), "now");
  assert.equal(relative(AT - 40 * 3_600_000, AT), "40 h ago");
});

test("the exact time names its zone and offset, on both sides of daylight saving", () => {
  assert.equal(exact(AT, "UTC"), "2026-03-29 00:30:00.120 UTC");
  assert.equal(exact(AT, "Europe/Berlin"), "2026-03-29 01:30:00.120 Europe/Berlin (UTC+1)");
  assert.equal(exact(AT + 3_600_000, "Europe/Berlin"), "2026-03-29 03:30:00.120 Europe/Berlin (UTC+2)");
  assert.equal(exact(AT, "No/Where"), "2026-03-29 00:30:00.120 No/Where (UTC)");
});

test("midnight is 00, and another day is named", () => {
  assert.equal(clock(Date.parse("2026-03-29T00:00:00Z"), "UTC", AT), "00:00:00");
  assert.equal(clock(Date.parse("2026-03-28T23:59:00Z"), "UTC", AT), "03-28 23:59");
  assert.equal(clock(Date.parse("2025-12-31T23:59:00Z"), "UTC", AT), "2025-12-31 23:59");
});
