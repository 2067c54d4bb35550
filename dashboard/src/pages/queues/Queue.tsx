import type { Queue as QueueType } from "../../api/types";
import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";
import { StateMark } from "../../components/StateMark";
import { href } from "../../router";
import { duration, exact, zoneName } from "../../time";
import { PauseButton } from "./actions";
import { FitMatrix } from "./FitMatrix";
import { stateOfQueue, type Fleet } from "./fleet";
import { QueueHistory } from "./QueueHistory";
import { Age, rate } from "./QueuesTable";
import { WorkersTable } from "./WorkersTable";

/** One queue: what waits, why, who takes it. */
export function Queue({ name, fleet }: { name: string; fleet: Fleet }) {
  const queue = fleet.queues.find((one) => one.name === name);
  if (!queue) return fleet.isLoaded ? <><PageHead title={name} /><Empty title={`Nothing uses a queue named ${name}.`} command="oncue queues list">A queue exists once a job or a worker names it. <a href={href("/queues")}>All queues</a></Empty></> : null;
  const takers = new Set([...queue.workers, ...queue.draining_workers]);
  const workers = fleet.workers.filter((worker) => takers.has(worker.worker_id));
  const state = stateOfQueue(queue);
  return (
    <>
      <PageHead kind="Queue" title={name} note={<Facts queue={queue} at={fleet.at} />}><PauseButton queue={queue} onChange={fleet.reload} /></PageHead>
      <section class={state === "active" ? "why" : state === "no_worker" ? "why bad-edge" : "why warn-edge"} aria-label="Why"><p><b>Why</b> {whyWords(queue)}</p></section>
      <FitMatrix fleet={fleet} queue={name} />
      <QueueHistory queue={name} />
      <section aria-labelledby="takers">
        <header class="section-head"><h2 id="takers">Workers that take from it</h2></header>
        {workers.length ? <WorkersTable fleet={fleet} workers={workers} /> : <Empty title="No live worker takes runs from this queue." command={`oncue worker --tasks FILE.py --queues ${name}`} />}
      </section>
    </>
  );
}

function Facts({ queue, at }: { queue: QueueType; at: number }) {
  return (
    <p class="facts">
      <StateMark state={stateOfQueue(queue)} />
      <span><a href={href("/runs", { queue: queue.name, status: "queued,retrying" })}><b class="number">{queue.due.toLocaleString("en")}{queue.more && "+"}</b> due</a></span>
      {queue.oldest_due_seconds !== null && <span>the oldest for <Age queue={queue} at={at} /></span>}
      <span><a href={href("/runs", { queue: queue.name, status: "running" })}><b class="number">{queue.running}</b> running</a></span>
      <span><b class="number">{queue.depth.toLocaleString("en")}</b> open</span>
      {!!queue.rate_per_minute && <span>{rate(queue.rate_per_minute)} attempts a minute</span>}
      {queue.lag_p50_ms !== null && <span>lag {duration(queue.lag_p50_ms)} <span class="faint">(99 of 100: {queue.lag_p99_ms === null ? "–" : duration(queue.lag_p99_ms)})</span></span>}
    </p>
  );
}

export function whyWords(queue: QueueType): string {
  const due = `${queue.due.toLocaleString("en")}${queue.more ? " or more" : ""} due ${queue.due === 1 ? "run" : "runs"}`;
  if (queue.paused_since) return `Paused${queue.paused_by ? ` by ${queue.paused_by}` : ""} at ${exact(Date.parse(queue.paused_since), zoneName())}. ${queue.due ? `${due} wait until it is resumed.` : "Nothing of it is due."}`;
  if (!queue.due) return "Nothing waits: no run of this queue is due.";
  if (!queue.workers.length) return queue.draining_workers.length ? `Every worker of this queue is draining, so ${due} wait.` : `No live worker takes runs from this queue, so ${due} wait.`;
  if (queue.drain_seconds) return `${due} wait for a free worker; at the rate of the last five minutes all have started in ${duration(queue.drain_seconds * 1_000)}.`;
  return `${due} wait for a worker that can run them.`;
}
