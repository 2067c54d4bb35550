// graphile-worker: 24 jobs at a time, 25 connections, completion batched with no delay, as in its docs under Performance;
// a local queue of 2000 instead of 500, which is a third faster here. Polls every 100 ms: the default is 2 s.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { asked, batches, dues, mark, numbers, rate, tell, tellAhead } from "./protocol.mjs";

const preset = {
  worker: {
    connectionString: asked.store,
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 2000 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    pollInterval: 100,
    logger: new Logger(() => () => {}),
  },
};
const task = ({ number }) => mark(number);
const work = () => run({ preset, taskList: { mark: task }, noHandleSignals: true });

const utils = await makeWorkerUtils({ preset });
await utils.migrate();

const addAll = async (due) => {
  const jobs = numbers().map((number) => ({
    identifier: "mark",
    payload: { number },
    runAt: due && new Date(due[number] * 1000),
  }));
  for (const some of batches(jobs)) await utils.addJobs(some);
};

if (asked.measure === "one_by_one") {
  await rate(async () => {
    for (const number of numbers()) await utils.addJob("mark", { number });
  });
} else if (asked.measure === "batch") {
  await rate(() => addAll());
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
if (["one_by_one", "batch"].includes(asked.measure)) process.exit(0);
