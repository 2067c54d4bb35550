// BullMQ: 100 jobs at a time in one worker (its docs, Workers, "Concurrency"), bulk adds of 1000 (Queues, "Adding jobs in
// bulk"), ended jobs removed ("Auto-removal of jobs").
import { Queue, Worker } from "bullmq";
import { asked, batches, mark, numbers, play } from "./protocol.mjs";

const { hostname: host, port } = new URL(asked.store);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: true } });
const work = () =>
  new Worker("bench", async ({ data }) => mark(data.number), { connection, concurrency: 100 }).waitUntilReady();

const addAll = async (due) => {
  for (const some of batches(numbers())) {
    const job = (number) => ({
      name: "mark",
      data: { number },
      opts: due && { delay: Math.max(0, Math.round(due[number] * 1000 - Date.now())) },
    });
    await queue.addBulk(some.map(job));
  }
};

await queue.waitUntilReady();
await play({ addOne: (number) => queue.add("mark", { number }), addAll, work });
