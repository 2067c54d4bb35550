import type { Schemas } from "../../api/types";
import { stateOf } from "../../states";
import { href } from "../../router";

type Worker = Schemas["Worker"];
const KINDS: Record<string, string> = { loop: "async slots", thread: "threads", process: "processes" };
const MOST = 120;

/** All workers in one row, each a cell that fills with what it runs. */
export function Fleet({ workers, queues }: { workers: Worker[]; queues: Schemas["Queue"][] }) {
  const paused = queues.filter((queue) => queue.paused_since).map((queue) => queue.name);
  return (
    <section class="fleet" aria-label="The fleet">
      <h2>Fleet</h2>
      {workers.length ? <ul class="fleet-cells">{workers.slice(0, MOST).map((worker) => <Cell key={worker.worker_id} worker={worker} />)}</ul> : <p class="state bad"><span class="glyph" aria-hidden="true">✕</span> <span class="word">no workers</span></p>}
      {workers.length > MOST && <span class="faint">and {workers.length - MOST} more</span>}
      <span class="fleet-facts faint">
        {statusWords(workers)}{Object.keys(KINDS).map((kind) => usedOf(workers, kind))}
      </span>
      {paused.length > 0 && <span class="state quiet"><span class="glyph" aria-hidden="true">‖</span> <a href={href("/queues")}>{paused.length === 1 ? `queue ${paused[0]} paused` : `${paused.length} queues paused`}</a></span>}
    </section>
  );
}

function Cell({ worker }: { worker: Worker }) {
  const name = worker.name ?? worker.worker_id;
  const { tone, glyph, word } = stateOf(worker.status ?? "active");
  const isCalm = worker.status === "active" || !worker.status;
  const running = worker.running ?? 0;
  return (
    <li>
      <a class={`fleet-cell ${isCalm ? (running ? "running" : "quiet") : tone}`} href={href(`/workers/${worker.worker_id}`)} title={`${name} on ${worker.host ?? "?"}: ${word}, ${running} running`} aria-label={`${name}: ${word}, ${running} running`}>
        <span aria-hidden="true">{isCalm ? running || "·" : glyph}</span>
      </a>
    </li>
  );
}

function statusWords(workers: Worker[]): string {
  const counts = new Map<string, number>();
  for (const worker of workers) counts.set(stateOf(worker.status ?? "active").word, (counts.get(stateOf(worker.status ?? "active").word) ?? 0) + 1);
  return [...counts].map(([word, n]) => `${n} ${word}`).join(", ");
}

function usedOf(workers: Worker[], kind: string): string {
  const sum = (field: "slots" | "free_slots"): number => workers.reduce((all, worker) => all + (worker[field][kind] ?? 0), 0);
  const slots = sum("slots");
  return slots ? ` · ${(slots - sum("free_slots")).toLocaleString("en")} of ${slots.toLocaleString("en")} ${KINDS[kind]}` : "";
}
