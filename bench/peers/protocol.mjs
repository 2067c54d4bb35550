// The protocol of protocol.py for Node. Marks are kept in memory and written every 20 ms: a system call for each would
// cost Node several times what it costs Python.
import { openSync, writeSync } from "node:fs";

export const BATCH = 1000;
const PER_SECOND = 100;

const [, , measure, count, store] = process.argv;
export const asked = { measure, count: Number(count), store };

function dues(lead) {
  const first = Math.floor(Date.now() / 1000 + lead) + 1;
  const apart = asked.measure === "spread" ? 1 / PER_SECOND : 0;
  return Array.from({ length: asked.count }, (_, number) => first + number * apart);
}

export const numbers = () => Array.from({ length: asked.count }, (_, number) => number);

export function* batches(items, size = BATCH) {
  for (let i = 0; i < items.length; i += size) yield items.slice(i, i + size);
}

const tell = (figures) => console.log(JSON.stringify(figures));

function tellAhead(all) {
  const ahead = all[0] - Date.now() / 1000;
  if (ahead < 0.5) {
    console.error(`enqueueing took too long: the first was due ${(-ahead).toFixed(1)} s before the last was there`);
    process.exit(1);
  }
  tell({ due: all[0] });
}

async function rate(enqueueAll) {
  const began = performance.now();
  await enqueueAll();
  tell({ per_second: (asked.count / (performance.now() - began)) * 1000 });
}

// All measures: `addOne` a job, `addAll` in batches, for now or for their instants, `work` starts the worker.
export async function play({ addOne, addAll, work }) {
  if (asked.measure === "one_by_one") {
    await rate(async () => {
      for (const number of numbers()) await addOne(number);
    });
    process.exit(0);
  } else if (asked.measure === "batch") {
    await rate(() => addAll());
    process.exit(0);
  } else if (asked.measure === "drain") {
    await addAll();
    await work();
    tell({});
  } else {
    await work();
    const due = dues(4);
    await addAll(due);
    tellAhead(due);
  }
}

const out = openSync(process.env.MARKS, "a");
let waiting = [];

export function mark(number) {
  waiting.push(number, (performance.timeOrigin + performance.now()) / 1000);
}

setInterval(() => {
  if (!waiting.length) return;
  const bytes = Buffer.alloc(waiting.length * 8);
  for (let i = 0; i < waiting.length; i += 2) {
    bytes.writeBigInt64LE(BigInt(waiting[i]), i * 8);
    bytes.writeDoubleLE(waiting[i + 1], i * 8 + 8);
  }
  waiting = [];
  writeSync(out, bytes);
}, 20).unref();
