import { useMemo } from "preact/hooks";
import { useGet } from "../../api/use";
import type { Queue, Worker } from "../../api/types";
import { useEvents } from "../../live";
import { usePulse, useThrottled } from "../../refresh";
import { now } from "../../time";
import type { ApiError } from "../../api/client";

const EVERY = 3_000; // ms, while numbers change

export type Fleet = { queues: Queue[]; workers: Worker[]; at: number; error?: ApiError; isLoaded: boolean; reload: () => void };

/** Queues and workers as they are; loaded again when one changes, or when the pulse says that work moves. */
export function useFleet(): Fleet {
  const queues = useGet("/v1/queues");
  const workers = useGet("/v1/workers");
  const reload = (): void => (queues.reload(), workers.reload());
  const soon = useThrottled(reload, EVERY);
  usePulse(({ due, running, started_per_second }) => [due, running, started_per_second], soon, EVERY);
  useEvents("queue", reload, []);
  useEvents("worker", reload, []);
  const at = useMemo(() => now(), [queues.data]);
  return {
    queues: queues.data?.queues ?? [],
    workers: workers.data?.workers ?? [],
    at,
    error: queues.error ?? workers.error,
    isLoaded: !!queues.data && !!workers.data,
    reload,
  };
}

/** Late by this much is worth a colour: `late_runs` of GET /v1/problems. */
const LATE = 60; // seconds

export function stateOfQueue(queue: Queue): string {
  if (queue.paused_since) return "paused";
  if (queue.due && !queue.workers.length) return "no_worker";
  return (queue.oldest_due_seconds ?? 0) > LATE ? "late" : "active";
}
