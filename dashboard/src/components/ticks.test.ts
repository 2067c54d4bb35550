import assert from "node:assert/strict";
import { test } from "node:test";
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

test("zones with half hours", () => {
  assert.deepEqual(texts("2026-11-17T20:00:00Z", 2, "Asia/Kolkata", 3), ["02:00", "03:00"]);
});
