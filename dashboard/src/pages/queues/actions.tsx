import { call } from "../../api/client";
import type { Queue, Worker } from "../../api/types";
import { command } from "../../commands";
import { Button } from "../../components/Button";
import { ask } from "../../components/Confirm";
import { tell } from "../../toasts";
import { kindsOf, onlyBy, sizeWords } from "./fit";
import type { Fleet } from "./fleet";

/** Pauses a queue after a question, or resumes it. */
export function PauseButton({ queue, onChange }: { queue: Queue; onChange: () => void }) {
  const name = queue.name;
  const path = { queue: name };
  const resume = async (): Promise<void> => void (tell(await call("post", "/v1/queues/{queue}/resume", { path }), `${name} goes on.`) && onChange());
  const pause = (): void => ask({
    title: `Pause the queue ${name}?`,
    hits: <p>No run of it starts until it is resumed. {count(queue.due, "run is", "runs are")} due now{queue.due ? " and will wait" : ""}; {count(queue.running, "run", "runs")} that {queue.running === 1 ? "is" : "are"} running {queue.running === 1 ? "continues" : "continue"}.</p>,
    command: command("queues pause", [name]),
    label: "Pause it",
    act: () => call("post", "/v1/queues/{queue}/pause", { path }),
    done: `${name} is paused.`,
    after: onChange,
  });
  return queue.paused_since
    ? <Button changes="queues" label={`Resume ${name}`} onClick={resume}>Resume</Button>
    : <Button changes="queues" label={`Pause ${name}`} onClick={pause}>Pause</Button>;
}

/** Drains a worker after a question, or lets it take runs again. */
export function DrainButton({ worker, fleet }: { worker: Worker; fleet: Fleet }) {
  const name = worker.name ?? worker.worker_id;
  const path = { id: worker.worker_id };
  const resume = async (): Promise<void> => void (tell(await call("post", "/v1/workers/{id}/resume", { path }), `${name} takes runs again.`) && fleet.reload());
  const drain = (): void => ask({
    title: `Drain ${name}?`,
    hits: <DrainHits worker={worker} fleet={fleet} />,
    command: command("workers drain", [worker.name ?? worker.worker_id]),
    label: "Drain it",
    act: () => call("post", "/v1/workers/{id}/drain", { path }),
    done: `${name} takes no new runs.`,
    after: fleet.reload,
  });
  if (worker.drain_requested_at) return <Button changes="workers" label={`Resume ${name}`} onClick={resume}>Resume</Button>;
  return worker.status === "active" ? <Button changes="workers" label={`Drain ${name}`} onClick={drain}>Drain</Button> : null;
}

function DrainHits({ worker, fleet }: { worker: Worker; fleet: Fleet }) {
  const lost = onlyBy(worker, kindsOf(fleet.queues), fleet.workers);
  return (
    <>
      <p>It takes no new runs, and finishes {count(worker.running ?? 0, "run", "runs")} that it has. It stays registered until it is resumed or stopped.</p>
      {lost.length > 0 && <p class="refusal">No other worker can take this work:</p>}
      <ul class="samples">{lost.slice(0, 5).map((kind) => <li key={kind.key}>{kind.task} in {kind.queue}{kind.labels.length > 0 && `, labels ${kind.labels.join(", ")}`}{sizeWords(kind.size) && `, ${sizeWords(kind.size)}`}: {kind.due} due, {kind.depth} open</li>)}{lost.length > 5 && <li>… and {lost.length - 5} more</li>}</ul>
    </>
  );
}

function count(n: number, one: string, many: string): string {
  return `${n ? n.toLocaleString("en") : "no"} ${n === 1 ? one : many}`;
}
