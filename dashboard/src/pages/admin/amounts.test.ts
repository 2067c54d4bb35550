import assert from "node:assert/strict";
import test from "node:test";
import { bytes, limit, spelled } from "./amounts";

test("bytes have the unit that keeps them short", () => {
  assert.deepEqual([0, 1023, 1024, 8 * 2 ** 20, 1536 * 2 ** 30].map(bytes), ["0 B", "1023 B", "1 KiB", "8 MiB", "1.5 TiB"]);
});

test("a limit is a size, a number or none", () => {
  assert.equal(limit("payload_bytes", 65_536), "64 KiB");
  assert.equal(limit("jobs", 100_000), "100,000");
  assert.equal(limit("jobs", null), "no limit");
  assert.equal(spelled("max_jobs"), "Max jobs");
});
