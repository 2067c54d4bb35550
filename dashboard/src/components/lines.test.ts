import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines } from "./lines";

const shown = (before: string, after: string): string => diffLines(before, after).map((line) => line.sign + line.text).join("|");

test("a changed line is removed and added in its place", () => {
  assert.equal(shown("a\nb\nc", "a\nx\nc"), " a|-b|+x| c");
});

test("lines that moved apart are found", () => {
  assert.equal(shown("a\nb\nc\nd", "b\nc\ne\nd"), "-a| b| c|+e| d");
});

test("equal texts have no sign, and a text may be empty", () => {
  assert.equal(shown("a\nb", "a\nb"), " a| b");
  assert.equal(shown("", "a"), "-|+a");
});
