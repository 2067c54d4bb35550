// A lane for each task or queue: counts by step, all in one answer.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call, type ApiError } from "../../api/client";
import type { Schemas } from "../../api/types";
import { useGet } from "../../api/use";
import { clockChanges } from "../../components/clockchanges";
import { spanMs } from "../../times";
import type { Coming } from "./load";

type Density = Schemas["UpcomingDensity"];

export type LaneOf = { name: string; buckets: { at: number; n: number; at_least: boolean }[]; countedUntil: number | null };
export type Asked = { from: number; to: number; by: "task" | "queue"; task?: string; queue?: string };
export type Laned = { lanes: LaneOf[]; total: LaneOf; step: number; left: number };

const MOST = 24; // lanes
const NICE = [1, 5, 15, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400].map((seconds) => seconds * 1_000);
const BARS = 150;

/** The step that gives at most 150 bars. */
export function stepFor(length: number): number {
  return NICE.find((step) => length / step <= BARS) ?? Math.ceil(length / BARS / 86_400_000) * 86_400_000;
}

export function useLanes({ from, to, by, task, queue }: Asked): { laned: Laned | null; error: ApiError | undefined } {
  const step = stepFor(to - from);
  const { data, error } = useGet("/v1/upcoming/density", { query: { by, task, queue, from: iso(from), to: iso(to), step: `${step / 1_000}s` } });
  const laned = useMemo(() => data && lanesOf(data), [data]);
  return { laned: laned ?? null, error: laned ? undefined : error };
}

/** The lanes with the most, by name, so that they stay where they are. */
function lanesOf(answer: Density): Laned {
  const lanes = answer.groups.slice(0, MOST).map((group) => laneOf(group.task ?? group.queue ?? "", group)).sort((a, b) => a.name.localeCompare(b.name));
  return { lanes, total: laneOf("all", answer), step: spanMs(answer.step), left: answer.groups.length + answer.more_groups - lanes.length };
}

function laneOf(name: string, { exact_until, buckets }: Pick<Density, "exact_until" | "buckets">): LaneOf {
  return { name, countedUntil: exact_until ? Date.parse(exact_until) : null, buckets: buckets.map((bucket) => ({ ...bucket, at: Date.parse(bucket.at) })) };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
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
