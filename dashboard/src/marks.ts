// Marks of change, for every chart: who did what, workers that joined or left, tasks that were announced.
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { useGet } from "./api/use";
import type { Schemas } from "./api/types";
import type { Mark } from "./components/Chart";
import { onEvents, useEvents } from "./live";
import { auditWords, tellsOfChange } from "./audits";

const MOST = 200;
const RELOAD_AFTER = 10_000; // ms: a change is a mark within this time

/** What happened to workers while this tab is open: the server does not keep those that left. */
const ofWorkers = signal<Mark[]>([]);
onEvents("worker", (events) => {
  const marks = events.filter((one) => one.change !== "joined").map((one) => ({ at: Date.parse(one.seen_at), text: `worker ${one.name}: ${one.change.replace("_", " ")}` }));
  if (marks.length) ofWorkers.value = [...ofWorkers.value, ...marks].slice(-MOST);
});

/** Everything that changed since `from` (ms): pass a rounded time, since each other one asks again. */
export function useMarks(from: number): Mark[] {
  const audit = useGet("/v1/audit", { query: { start_time: new Date(from).toISOString(), limit: MOST } });
  const workers = useGet("/v1/workers");
  const tasks = useGet("/v1/tasks");
  useEvents("worker", () => (workers.reload(), tasks.reload()));
  useEvents("pulse", everyNow(() => audit.reload()));
  return useMemo(
    () => [...ofAudit(audit.data?.audit ?? []), ...joined(workers.data?.workers ?? []), ...announced(tasks.data?.tasks ?? []), ...ofWorkers.value].filter((mark) => mark.at >= from).sort((a, b) => a.at - b.at),
    [audit.data, workers.data, tasks.data, ofWorkers.value, from],
  );
}

function everyNow(act: () => void): () => void {
  let last = Date.now();
  return () => {
    if (Date.now() - last < RELOAD_AFTER) return;
    last = Date.now();
    act();
  };
}

function ofAudit(lines: Schemas["AuditLine"][]): Mark[] {
  return lines.filter((line) => tellsOfChange(line.action)).map((line) => ({ at: Date.parse(line.at), text: auditWords(line) }));
}

function joined(workers: Schemas["Worker"][]): Mark[] {
  return workers.flatMap((one) => (one.started_at ? [{ at: Date.parse(one.started_at), text: `worker ${one.name ?? one.worker_id} joined` }] : []));
}

function announced(tasks: Schemas["TaskInfo"][]): Mark[] {
  return tasks.flatMap((one) => (one.announced_at ? [{ at: Date.parse(one.announced_at), text: `task ${one.name} announced` }] : []));
}
