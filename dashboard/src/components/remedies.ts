// What to type against each reason of `explain`, about the root of the chain.
import { command, quoted } from "../commands";
import type { Link } from "./WhyChain";

export type Remedy = { words: string; command: string };

const START_A_WORKER = "oncue worker --tasks tasks.py";

/** Null: nothing needs to be done, or nothing can be. `asked`: what is known of the object that is asked about. */
export function remedyOf({ why, run }: Link, asked: { job?: string; queue?: string; labels?: string[] }): Remedy | null {
  const job = run?.job_id ?? asked.job;
  const from = run?.queue ?? asked.queue;
  const queue = from && from !== "default" ? ` --queues ${quoted(from)}` : "";
  const labels = (!run && asked.labels?.length && asked.labels.map(quoted).join(",")) || "LABEL";
  const isRoot = !why.holder;
  switch (why.reason) {
    case "running":
      if (run?.status === "cancelling") return { words: "It is stopping. If its function does not stop, restart its worker:", command: "oncue workers list" };
      return run && isRoot ? { words: "Wait, or stop it:", command: command("runs cancel", [run.run_id]) } : null;
    case "paused":
      return job ? { words: "Resume the job:", command: command("jobs resume", [job]) } : null;
    case "queue_paused":
      return { words: "Resume the queue (administrators):", command: from ? command("queues resume", [from]) : "oncue queues list" };
    case "worker_lost":
      return { words: "It restarts when the lease ends. See the worker:", command: "oncue workers list" };
    case "overlap": case "group": case "concurrency":
      return why.holder ? { words: "Wait, or stop what blocks it:", command: command("runs cancel", [why.holder]) } : null;
    case "rate":
      return { words: "Wait. See that a scheduler runs:", command: "oncue doctor" };
    case "no_worker":
      return { words: "Start a worker that has the task and takes from the queue:", command: START_A_WORKER + queue };
    case "no_labels":
      return { words: "Start a worker with these labels:", command: `${START_A_WORKER}${queue} --labels ${labels}` };
    case "too_big":
      return { words: "Request less, or start a larger worker:", command: `${START_A_WORKER}${queue} --concurrency 1000` };
    case "no_capacity":
      return { words: "Wait, or start another worker:", command: START_A_WORKER + queue };
    default:
      return null;
  }
}
