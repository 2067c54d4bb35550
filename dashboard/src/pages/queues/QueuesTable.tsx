import type { Queue } from "../../api/types";
import { StateMark } from "../../components/StateMark";
import { Table, type Column } from "../../components/Table";
import { When } from "../../components/When";
import { href } from "../../router";
import { can, isAdmin } from "../../session";
import { duration, second, shortDuration } from "../../time";
import { PauseButton } from "./actions";
import { kindsOf, matrix, teamsOf } from "./fit";
import { stateOfQueue, type Fleet } from "./fleet";

export function QueuesTable({ fleet, queues = fleet.queues }: { fleet: Fleet; queues?: Queue[] }) {
  return <Table label="Queues" columns={columnsOf(fleet)} rows={queues} keyOf={(queue) => queue.name} />;
}

function columnsOf(fleet: Fleet): Column<Queue>[] {
  const columns: Column<Queue>[] = [
    { head: "State", width: "8rem", phoneWidth: "3.4rem", cell: (queue) => <StateMark state={stateOfQueue(queue)} /> },
    { head: "Queue", cell: (queue) => <Name queue={queue} /> },
    { head: "Due", width: "4rem", align: "end", cell: (queue) => <Due queue={queue} /> },
    { head: <abbr title="how long the first of the due runs has been due">Oldest due</abbr>, width: "6.5rem", phoneWidth: "5.5rem", align: "end", cell: (queue) => <Age queue={queue} at={fleet.at} /> },
    { head: "Running", width: "4.5rem", align: "end", wide: true, cell: (queue) => <Number n={queue.running} /> },
    { head: <abbr title="scheduled, waiting and running runs">Open</abbr>, width: "4rem", align: "end", wide: "very", cell: (queue) => <Number n={queue.depth} /> },
    { head: "Workers", width: "4.8rem", align: "end", wide: true, cell: (queue) => <Workers queue={queue} /> },
  ];
  const stuck = new Set(matrix(kindsOf(fleet.queues), teamsOf(fleet.workers)).filter((row) => row.verdict === "nobody" && row.kind.due > 0).map((row) => row.kind.queue));
  const measured: Column<Queue>[] = [
    { head: <abbr title="how late half, and 99 of 100, of the attempts of the last five minutes started">Lag p50 · p99</abbr>, width: "9rem", align: "end", wide: "very", cell: (queue) => <Lag queue={queue} /> },
    { head: <abbr title="attempts that ended a minute, over the last five minutes">Rate</abbr>, width: "5rem", align: "end", wide: "very", cell: (queue) => <span class="number">{queue.rate_per_minute ? `${rate(queue.rate_per_minute)}/min` : <span class="faint">–</span>}</span> },
    { head: <abbr title="until all due runs have started at this rate">Time to drain</abbr>, width: "7rem", align: "end", wide: true, cell: (queue) => <Drain queue={queue} isStuck={stuck.has(queue.name)} /> },
  ];
  const act: Column<Queue> = { head: <span class="for-readers">Actions</span>, width: "6.5rem", align: "end", wide: true, cell: (queue) => <PauseButton queue={queue} onChange={fleet.reload} /> };
  return [...columns, ...(isAdmin.value ? measured : []), ...(can("queues") ? [act] : [])];
}

function Name({ queue }: { queue: Queue }) {
  return (
    <span class="name-and-note">
      <a class="main-link" href={href(`/queues/${encodeURIComponent(queue.name)}`)}>{queue.name}</a>
      {queue.paused_since && <span class="faint wide">{queue.paused_by && `by ${queue.paused_by}, `}<When at={queue.paused_since} /></span>}
    </span>
  );
}

export function rate(perMinute: number): string {
  return perMinute < 10 ? perMinute.toFixed(1) : Math.round(perMinute).toLocaleString("en");
}

function Number({ n }: { n: number }) {
  return n ? <span class="number">{n.toLocaleString("en")}</span> : <span class="faint">–</span>;
}

function Due({ queue }: { queue: Queue }) {
  if (!queue.due) return <span class="faint">–</span>;
  return <b class="number" title={queue.more ? "More may be due: not all were counted." : undefined}>{queue.due.toLocaleString("en")}{queue.more && "+"}</b>;
}

/** It grows while nothing happens. */
export function Age({ queue, at }: { queue: Queue; at: number }) {
  if (queue.oldest_due_seconds === null) return <span class="faint">–</span>;
  const ms = queue.oldest_due_seconds * 1_000 + Math.max(0, second.value - at);
  return <span class={`number state ${stateOfQueue(queue) === "active" ? "" : "warn"}`}>{duration(ms)}</span>;
}

function Workers({ queue }: { queue: Queue }) {
  const draining = queue.draining_workers.length;
  const title = draining ? `and ${draining} draining` : undefined;
  if (queue.workers.length) return <span class="number" title={title}>{queue.workers.length}{draining > 0 && ` +${draining}`}</span>;
  return <span class={`state ${queue.depth ? "bad" : "quiet"}`} title={title}>{queue.depth ? <b>none</b> : "none"}</span>;
}

function Lag({ queue }: { queue: Queue }) {
  if (queue.lag_p50_ms === null) return <span class="faint">–</span>;
  return <span class="number">{shortDuration(queue.lag_p50_ms)} · {queue.lag_p99_ms === null ? "–" : shortDuration(queue.lag_p99_ms)}</span>;
}

function Drain({ queue, isStuck }: { queue: Queue; isStuck: boolean }) {
  if (isStuck) return <span class="state warn" title="Nobody can run some of it: see who can run what.">never</span>;
  if (queue.drain_seconds) return <span class="number">{duration(queue.drain_seconds * 1_000)}</span>;
  if (queue.due && queue.drain_seconds === null) return <span class="faint" title="It is paused, nothing of it has ended lately, or too much is due to count.">unknown</span>;
  return <span class="faint">–</span>;
}
