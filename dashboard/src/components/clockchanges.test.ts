import assert from "node:assert/strict";
import { test } from "node:test";
import { changeWords, clockChanges } from "./clockchanges";

const at = (text: string): number => Date.parse(text);

test("clocks go forward in spring and back in autumn, to the second", () => {
  const [spring, autumn, ...rest] = clockChanges("Europe/Berlin", at("2027-01-01T00:00:00Z"), at("2027-12-31T00:00:00Z"));
  assert.deepEqual([spring!.at, spring!.by], [at("2027-03-28T01:00:00Z"), 3_600_000]);
  assert.deepEqual([autumn!.at, autumn!.by], [at("2027-10-31T01:00:00Z"), -3_600_000]);
  assert.equal(rest.length, 0);
});

test("what it means is said on the zone's own clock", () => {
  const [spring] = clockChanges("America/New_York", at("2027-03-14T00:00:00Z"), at("2027-03-15T00:00:00Z"));
  const [autumn] = clockChanges("America/New_York", at("2027-11-07T00:00:00Z"), at("2027-11-08T00:00:00Z"));
  assert.equal(changeWords(spring!), "02:00–03:00 does not exist");
  assert.equal(changeWords(autumn!), "01:00–02:00 comes twice");
});

test("UTC and a window without a change have none", () => {
  assert.deepEqual(clockChanges("UTC", at("2027-01-01T00:00:00Z"), at("2028-01-01T00:00:00Z")), []);
  assert.deepEqual(clockChanges("Europe/Berlin", at("2027-05-01T00:00:00Z"), at("2027-05-02T00:00:00Z")), []);
});
