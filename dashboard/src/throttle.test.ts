import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { throttle } from "./throttle";

test("many calls are one, at once and then not before the time is over", () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  let count = 0;
  const { call } = throttle(() => count++, 1_000);
  for (let i = 0; i < 5; i++) call();
  mock.timers.tick(0);
  assert.equal(count, 1);
  for (let i = 0; i < 5; i++) call();
  mock.timers.tick(999);
  assert.equal(count, 1);
  mock.timers.tick(1);
  assert.equal(count, 2);
  mock.timers.reset();
});
