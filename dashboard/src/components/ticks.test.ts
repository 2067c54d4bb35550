import assert from "node:assert/strict";
import { test } from "node:test";
import { clockChanges } from "./clockchanges";
import { ticksOf } from "./ticks";

const HOUR = 3_600_000;
const texts = (from: string, hours: number, zone: string, most: number): string[] =>
  ticksOf(Date.parse(from), Date.parse(from) + hours * HOUR, zone, most).map((tick) => tick.text);

test("hours of the zone, and the day at midnight", () => {
  assert.deepEqual(texts("2026-11-17T20:10:00Z", 6, "Europe/Berlin", 8), ["22:00", "23:00", "11-18", "01:00", "02:00", "03:00"]);
});

test("an hour that does not exist has no tick, and one that repeats has two", () => {
  assert.deepEqual(texts("2026-03-29T00:00:00Z", 3, "Europe/Berlin", 4), ["01:00", "03:00", "04:00"]);
  assert.deepEqual(texts("2026-10-24T23:30:00Z", 3, "Europe/Berlin", 4), ["02:00", "02:00", "03:00"]);
});

test("many days, few ticks", () => {
  assert.ok(texts("2026-01-01T00:00:00Z", 24 * 365, "UTC", 12).length <= 13);
});

test("a window of centuries costs no more than what is drawn", () => {
  const format = Intl.DateTimeFormat.prototype;
  const whole = format.formatToParts;
  let looks = 0;
  format.formatToParts = function (...given) {
    looks += 1;
    return whole.apply(this, given);
  };
  const ticks = texts("2026-11-18T00:00:00Z", 24 * 365 * 170, "Europe/Berlin", 12);
  const changes = clockChanges("Europe/Berlin", 0, Date.UTC(2199, 0));
  format.formatToParts = whole;
  assert.ok(ticks.length >= 6 && ticks.length <= 13 && looks < 100, `${ticks.length} ticks, ${looks} looks`);
  assert.match(ticks[0]!, /^\d{4}-\d\d$/);
  assert.deepEqual(changes, []);
});

test("weeks begin at midnight of the zone, in summer and in winter", () => {
  const from = Date.parse("2026-10-20T00:00:00Z");
  const times = ticksOf(from, from + 12 * 24 * HOUR, "Europe/Berlin", 14).map((tick) => new Date(tick.at).toISOString().slice(5, 16));
  assert.equal(times[0], "10-20T22:00");
  assert.equal(times.at(-1), "10-31T23:00");
});

test("zones with half hours", () => {
  assert.deepEqual(texts("2026-11-17T20:00:00Z", 2, "Asia/Kolkata", 3), ["02:00", "03:00"]);
});
