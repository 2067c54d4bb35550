import { usePaged } from "../../api/use";
import type { Run, Worker as WorkerType } from "../../api/types";
import { Copy } from "../../components/Copy";
import { Empty } from "../../components/Empty";
import { LookedBack } from "../../components/LookedBack";
import { Name } from "../../components/Name";
import { PageHead } from "../../components/PageHead";
import { Progress } from "../../components/Progress";
import { StateMark } from "../../components/StateMark";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { useEvents } from "../../live";
import { callRun } from "../../names";
import { useThrottled } from "../../refresh";
import { href } from "../../router";
import { DrainButton } from "./actions";
import type { Fleet } from "./fleet";
import { Memory, Slots } from "./WorkersTable";

const EVERY = 1_000; // ms

/** One worker: how it is, what it offers, and the runs that it holds. */
export function Worker({ id, fleet }: { id: string; fleet: Fleet }) {
  const worker = fleet.workers.find((one) => one.worker_id === id);
  if (!worker) return fleet.isLoaded ? <><PageHead title="Worker" /><Empty title="This worker is gone: it was stopped, or has sent no heartbeat for too long." command="oncue workers list">A worker gets another id whenever its process starts. <a href={href("/workers")}>All workers</a></Empty></> : null;
  return (
    <>
      <PageHead kind="Worker" title={worker.name ?? `…${worker.worker_id.slice(-8)}`} note={<Facts worker={worker} />}><DrainButton worker={worker} fleet={fleet} /></PageHead>
      <section class={worker.status === "active" ? "why" : "why warn-edge"} aria-label="Status"><p><b>Status</b> {statusWords(worker)}</p></section>
      <dl class="offer">
        <div><dt>Slots in use</dt><dd><Slots worker={worker} /></dd></div>
        <div><dt>Memory asked for</dt><dd><Memory worker={worker} /></dd></div>
        <div><dt>Queues</dt><dd>{worker.queues.map((name, at) => <span key={name}>{at > 0 && ", "}<a href={href(`/queues/${encodeURIComponent(name)}`)}>{name}</a></span>)}</dd></div>
        <div><dt>Labels</dt><dd>{worker.labels.join(", ") || <span class="faint">none</span>}</dd></div>
        <div><dt>Tasks</dt><dd>{worker.tasks.join(", ")}</dd></div>
      </dl>
      <Held id={id} />
    </>
  );
}

function Facts({ worker }: { worker: WorkerType }) {
  return (
    <p class="facts">
      <StateMark state={worker.status ?? "active"} />
      <span>on {worker.host}</span>
      <span>heartbeat <When at={worker.seen_at} focusable /></span>
      <span>started <When at={worker.started_at} focusable /></span>
      <span>version {worker.version ?? "unknown"}</span>
      <span class="faint"><code>{worker.worker_id}</code><Copy text={worker.worker_id} what="the id" /></span>
    </p>
  );
}

export function statusWords(worker: WorkerType): string {
  const left = worker.running ?? 0;
  const runs = left ? `${left} ${left === 1 ? "run" : "runs"} left to finish` : "nothing left to finish";
  if (worker.status === "no_heartbeat") return `No heartbeat for longer than its lease of ${worker.lease}. It counts as dead, and its runs start elsewhere.`;
  if (worker.drain_requested_at) return `Drained by an administrator: it takes no new runs, ${runs}. Resume it to let it take runs again.`;
  if (worker.draining) return `Its process stops or was replaced: it takes no new runs, ${runs}.`;
  return `It takes runs, and executes ${left || "none"} now. Without a heartbeat for ${worker.lease} it would count as dead.`;
}

function Held({ id }: { id: string }) {
  const runs = usePaged("/v1/workers/{id}/runs", { path: { id } }, (page) => page.runs);
  const soon = useThrottled(runs.reload, EVERY);
  useEvents("run", (events) => events.some((run) => run.executor_id === id) && soon(), [id]);
  return (
    <section aria-labelledby="held">
      <header class="section-head"><h2 id="held">Runs that it holds</h2><a href={href("/runs", { worker_id: id })}>All that it ran</a></header>
      {runs.error && <Trouble error={runs.error} onAgain={runs.reload} />}
      {runs.items.length > 0 && <Table label="Runs that it holds" columns={COLUMNS} rows={runs.items} keyOf={(run) => run.run_id} onEnd={runs.more} />}
      {!runs.loading && !runs.items.length && <p class="faint">None at the moment.</p>}
      <LookedBack to={runs.lookedBackTo} hasMore={runs.hasMore} onMore={runs.more} />
    </section>
  );
}

const COLUMNS: Column<Run>[] = [
  { head: "Status", width: "8rem", phoneWidth: "3.4rem", cell: (run) => <StateMark state={run.status} /> },
  { head: "Job", cell: (run) => <a class="main-link" href={href(`/runs/${run.run_id}`)}><Name of={callRun(run)} /></a> },
  { head: "Task", width: "16%", wide: true, cell: (run) => <span class="cut">{run.task}</span> },
  { head: "Queue", width: "12%", wide: true, cell: (run) => <span class="cut">{run.queue}</span> },
  { head: "Started", width: "7rem", cell: (run) => <When at={run.start_time} /> },
  { head: "Attempt", width: "5rem", align: "end", wide: true, cell: (run) => <span class="number">{run.attempt_number}</span> },
  { head: "Progress", width: "14rem", wide: true, cell: (run) => run.progress && <Progress label="Progress" done={run.progress.done ?? 0} total={run.progress.total} /> },
];
