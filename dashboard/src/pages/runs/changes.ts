// What live events change in a list of runs, and in which order they are: as the API lists them.
import type { Run } from "../../api/types";
import type { RunEvent } from "../../live";
import { isRunning, isWaiting } from "../../runs";

type Place = { status: string; scheduled_for: string | null; end_time: string | null; run_id: string };

function rank(run: Place): number {
  return isRunning(run) ? 0 : isWaiting(run) ? 1 : 2;
}

/** Running ones first, then waiting ones, the earliest due first; then ended ones, the last end first. */
export function inOrder(a: Place, b: Place): number {
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  const order = rank(a) === 2 ? compare(b.end_time, a.end_time) : compare(a.scheduled_for, b.scheduled_for);
  return order || compare(a.run_id, b.run_id);
}

function compare(a: string | null, b: string | null): number {
  return (a ?? "") < (b ?? "") ? -1 : (a ?? "") > (b ?? "") ? 1 : 0;
}

/** Changed runs at their new places; those that no longer match are gone. `isWhole`: no page follows. */
export function withRunEvents(shown: Run[], events: RunEvent[], matches: (run: RunEvent) => boolean, isWhole: boolean): Run[] {
  if (!events.length) return shown;
  const known = new Map(shown.map((run) => [run.run_id, run]));
  const changed = new Set(events.map((event) => event.run_id));
  const last = shown[shown.length - 1];
  const arrived = events.filter(matches).map((event) => ({ ...known.get(event.run_id), ...event }) as Run);
  // What comes after the last one that is shown is on a page that is not loaded yet.
  const near = isWhole || !last ? arrived : arrived.filter((run) => inOrder(run, last) <= 0);
  if (!near.length && !shown.some((run) => changed.has(run.run_id))) return shown;
  return [...shown.filter((run) => !changed.has(run.run_id)), ...near].sort(inOrder);
}

export type Wanted = {
  status?: string; job_id?: string; task?: string; queue?: string; error_type?: string; worker_id?: string; trigger?: string;
  ended_after?: string; ended_before?: string; user_id?: string;
};

/** Whether an event is about a run that the API would list for this question. */
export function isWanted(run: RunEvent, wanted: Wanted): boolean {
  const oneOf = (value: string | null, list?: string): boolean => !list || list.split(",").includes(value ?? "");
  const same = (value: string | null, exact?: string): boolean => !exact || exact === value;
  const hasEnded = (!wanted.ended_after && !wanted.ended_before) || isBetween(run.end_time, wanted.ended_after, wanted.ended_before);
  return oneOf(run.status, wanted.status) && oneOf(run.trigger, wanted.trigger) && same(run.job_id, wanted.job_id) && same(run.task, wanted.task)
    && same(run.queue, wanted.queue) && same(run.error_type, wanted.error_type) && same(run.executor_id, wanted.worker_id) && hasEnded;
}

function isBetween(at: string | null, from?: string, until?: string): boolean {
  if (!at) return false;
  return (!from || Date.parse(at) >= Date.parse(from)) && (!until || Date.parse(at) < Date.parse(until));
}
