// A lane for each task or queue: counts by step, asked for one after the other.
import { useEffect, useState } from "preact/hooks";
import { call, type ApiError } from "../../api/client";
import { onResync } from "../../live";
import { clockChanges } from "../../components/clockchanges";
import type { Coming } from "./load";

export type LaneOf = { name: string; buckets: { at: number; n: number; at_least: boolean }[]; countedUntil: number | null };
export type Asked = { from: number; to: number; by: "task" | "queue"; task?: string; queue?: string };
export type Laned = { lanes: LaneOf[]; total: LaneOf; step: number; error?: ApiError; isWhole: boolean; left: number };

const MOST = 24; // lanes
const NICE = [1, 5, 15, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400].map((seconds) => seconds * 1_000);
const BARS = 150;

/** The step that gives at most 150 bars. */
export function stepFor(length: number): number {
  return NICE.find((step) => length / step <= BARS) ?? Math.ceil(length / BARS / 86_400_000) * 86_400_000;
}

export function useLanes(asked: Asked, names: string[] | undefined): Laned | null {
  const [laned, setLaned] = useState<Laned | null>(null);
  const [round, setRound] = useState(0);
  useEffect(() => onResync(() => setRound((n) => n + 1)), []);
  const key = JSON.stringify([asked, names]);
  useEffect(() => {
    if (!names) return;
    let isOver = false;
    void gather(asked, names, (now) => isOver || setLaned(now), () => isOver);
    return () => void (isOver = true);
  }, [key, round]);
  return laned;
}

async function gather(asked: Asked, names: string[], show: (laned: Laned) => void, isOver: () => boolean): Promise<void> {
  const { by, from, to, task, queue } = asked;
  const step = stepFor(to - from);
  const total = await count("all", asked, { task, queue }, step);
  if ("error" in total) return show({ lanes: [], total: { name: "all", buckets: [], countedUntil: null }, step, error: total.error, isWhole: true, left: 0 });
  const wanted = names.filter((name) => !asked[by] || asked[by] === name);
  const lanes: LaneOf[] = [];
  for (const name of wanted.slice(0, MOST)) {
    const lane = await count(name, asked, { task, queue, [by]: name }, step);
    if (isOver()) return;
    if (!("error" in lane) && lane.buckets.length) lanes.push(lane);
    show({ lanes: [...lanes], total, step, isWhole: false, left: 0 });
  }
  show({ lanes, total, step, isWhole: true, left: Math.max(0, wanted.length - MOST) });
}

async function count(name: string, { from, to }: Asked, filter: { task?: string; queue?: string }, step: number): Promise<LaneOf | { error: ApiError }> {
  const answer = await call("get", "/v1/upcoming/density", { query: { ...filter, from: new Date(from).toISOString(), to: new Date(to).toISOString(), step: `${step / 1_000}s` } });
  if (!answer.ok) return { error: answer.error };
  const { exact_until } = answer.value;
  return { name, countedUntil: exact_until ? Date.parse(exact_until) : null, buckets: answer.value.buckets.map((bucket) => ({ ...bucket, at: Date.parse(bucket.at) })) };
}

const HOUR = 3_600_000;
const OF_CLOCKS = /does not exist|of the two|clocks/;

/** The runs that a change of clocks moves or repeats: of all that come around one. */
export function useMoved(asked: Asked, zones: string[]): Coming[] {
  const [moved, setMoved] = useState<Coming[]>([]);
  const changes = zones.flatMap((zone) => clockChanges(zone, asked.from, asked.to)).map((change) => change.at);
  const key = JSON.stringify([changes, asked.task, asked.queue]);
  useEffect(() => {
    let isOver = false;
    void Promise.all([...new Set(changes)].slice(0, 3).map((at) => around(at, asked))).then((found) => isOver || setMoved(found.flat()));
    return () => void (isOver = true);
  }, [key]);
  return moved;
}

async function around(at: number, { task, queue }: Asked): Promise<Coming[]> {
  const answer = await call("get", "/v1/upcoming", { query: { task, queue, from: new Date(at - HOUR).toISOString(), to: new Date(at + HOUR + 1).toISOString(), limit: 1_000 } });
  return answer.ok ? answer.value.upcoming.filter((run) => OF_CLOCKS.test(run.note ?? "")) : [];
}
