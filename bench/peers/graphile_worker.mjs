// graphile-worker: 24 jobs at a time, 25 connections, completion batched with no delay, as in its docs under Performance;
// a local queue of 2000 instead of 500. Polls every 100 ms: the default is 2 s.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { asked, batches, mark, numbers, play } from "./protocol.mjs";

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

await play({ addOne: (number) => utils.addJob("mark", { number }), addAll, work });
