// Which workers can run which kinds of work, by the rules of src/oncue/domain/placement.py; if one cannot, why not.
import type { Queue, Worker } from "../../api/types";

export type Size = { cpu: number; memory_mb: number; slots: number };
type Class = { task: string; priority: string; labels: string[]; resources: Size; depth: number; due: number };
type Offer = { tasks: string[]; queues: string[]; labels: string[]; resources: Size; slots: Record<string, number> };

/** What decides where a run can go. Priorities are added up: they decide who goes first, not where. */
export type Kind = { key: string; queue: string; isPaused: boolean; task: string; labels: string[]; size: Size; due: number; depth: number };
/** Workers that offer the same and are in the same state. */
export type Team = { key: string; workers: Worker[]; offer: Offer | null; status: string };

export type Verdict = "can" | "full" | "draining" | "no_heartbeat" | "no_task" | "no_queue" | "no_label" | "too_big" | "unknown";
export type Fit = { verdict: Verdict; word: string; detail: string };
export type Row = { kind: Kind; fits: Fit[]; verdict: "runs" | "full" | "nobody" };

export function kindsOf(queues: Queue[]): Kind[] {
  const kinds = new Map<string, Kind>();
  for (const queue of queues) {
    for (const one of queue.classes as unknown as Class[]) {
      const key = JSON.stringify([queue.name, one.task, one.labels, one.resources]);
      const before = kinds.get(key) ?? { key, queue: queue.name, isPaused: queue.paused_since !== null, task: one.task, labels: one.labels, size: one.resources, due: 0, depth: 0 };
      kinds.set(key, { ...before, due: before.due + one.due, depth: before.depth + one.depth });
    }
  }
  return [...kinds.values()];
}

export function teamsOf(workers: Worker[]): Team[] {
  const teams = new Map<string, Team>();
  for (const worker of workers) {
    const offer = worker.offer as unknown as Offer | null;
    const status = worker.status ?? "active";
    const key = JSON.stringify([offer ?? worker.worker_id, status]);
    const team = teams.get(key) ?? { key, workers: [], offer, status };
    teams.set(key, { ...team, workers: [...team.workers, worker] });
  }
  return [...teams.values()];
}

/** Rows that nobody can run come first, then those with most due work. */
export function matrix(kinds: Kind[], teams: Team[]): Row[] {
  const rows = kinds.map((kind) => {
    const fits = teams.map((team) => fitOf(kind, team));
    const verdict = fits.some((fit) => fit.verdict === "can") ? "runs" : fits.some((fit) => fit.verdict === "full") ? "full" : "nobody";
    return { kind, fits, verdict } as Row;
  });
  const rank = { nobody: 0, full: 1, runs: 2 };
  return rows.sort((a, b) => rank[a.verdict] - rank[b.verdict] || b.kind.due - a.kind.due || b.kind.depth - a.kind.depth || a.kind.key.localeCompare(b.kind.key));
}

export function fitOf(kind: Kind, team: Team): Fit {
  const lack = team.offer ? lackOf(kind, team.offer) : fit("unknown", "unknown", "A version of oncue that does not say what it offers.");
  if (lack) return lack;
  if (team.status === "no_heartbeat") return fit("no_heartbeat", "no heartbeat", "It could, but has sent no heartbeat for longer than its lease.");
  if (team.status === "draining") return fit("draining", "draining", "It could, but is draining and takes no new runs.");
  const free = team.workers.reduce((sum, worker) => sum + freeFor(kind, worker, team.offer!), 0);
  return free > 0 ? fit("can", `${free.toLocaleString("en")} free`, `It can run this, and has room for ${free.toLocaleString("en")}.`) : fit("full", "full", "It can run this, but has nothing free now.");
}

function fit(verdict: Verdict, word: string, detail: string): Fit {
  return { verdict, word, detail };
}

function lackOf({ task, queue, labels, size }: Kind, offer: Offer): Fit | null {
  if (!offer.tasks.includes(task)) return fit("no_task", "no task", `It does not have the task ${task}.`);
  if (!offer.queues.includes(queue)) return fit("no_queue", "no queue", `It does not take runs from the queue ${queue}.`);
  const missing = labels.filter((label) => !offer.labels.includes(label));
  if (missing.length) return fit("no_label", "no label", `It lacks the label ${missing.join(", ")}.`);
  const has = { ...offer.resources, slots: offer.slots[task] ?? offer.resources.slots };
  const short = shortOf(size, has);
  return short ? fit("too_big", "too big", `The run requests ${short}.`) : null;
}

function shortOf(size: Size, has: Size): string | null {
  if (roundUp(size.cpu * 1_000) > roundUp(has.cpu * 1_000)) return `${size.cpu} cpu, it has ${has.cpu}`;
  if (roundUp(size.memory_mb) > roundUp(has.memory_mb)) return `${size.memory_mb.toLocaleString("en")} MB, it has ${has.memory_mb.toLocaleString("en")} MB`;
  if (size.slots > has.slots) return `${size.slots} slots, it has ${has.slots}`;
  return null;
}

/** Eight sizes per doubling, as the server compares them. */
export function roundUp(amount: number): number {
  const whole = Math.round(amount);
  const bits = whole > 1 ? (whole - 1).toString(2).length : 0;
  const grain = 2 ** Math.max(0, bits - 4);
  return Math.ceil(whole / grain) * grain;
}

/** How many more runs of this kind it could start now. */
function freeFor({ task, size }: Kind, worker: Worker, offer: Offer): number {
  const own = offer.slots[task];
  // A worker tells the number of slots of a task that does not run in the event loop, not their kind.
  const kinds = own === undefined ? ["loop"] : ["thread", "process"].filter((kind) => worker.slots[kind] === own);
  const slots = Math.max(0, ...(kinds.length ? kinds : Object.keys(worker.slots)).map((kind) => worker.free_slots[kind] ?? 0));
  const used = worker.resources_used ?? {};
  const byCpu = size.cpu ? (offer.resources.cpu - (used.cpu ?? 0)) / size.cpu : Infinity;
  const byMemory = size.memory_mb ? (offer.resources.memory_mb - (used.memory_mb ?? 0)) / size.memory_mb : Infinity;
  return Math.max(0, Math.floor(Math.min(slots / Math.max(1, size.slots), byCpu, byMemory)));
}

/** Kinds of work that have runs, and that only this worker can take. */
export function onlyBy(worker: Worker, kinds: Kind[], workers: Worker[]): Kind[] {
  const others = teamsOf(workers.filter((one) => one.worker_id !== worker.worker_id));
  const takes = (kind: Kind, team: Team): boolean => ["can", "full"].includes(fitOf(kind, team).verdict);
  return kinds.filter((kind) => kind.depth > 0 && teamsOf([worker]).some((team) => takes(kind, team)) && !others.some((team) => takes(kind, team)));
}

/** "2 cpu, 4096 MB, 2 slots"; empty for the usual size. */
export function sizeWords({ cpu, memory_mb, slots }: Size): string {
  return [cpu && `${cpu} cpu`, memory_mb && `${memory_mb.toLocaleString("en")} MB`, slots > 1 && `${slots} slots`].filter(Boolean).join(", ");
}
