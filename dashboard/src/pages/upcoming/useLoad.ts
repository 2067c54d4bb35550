// Gathers what the load of the next 24 hours is made of: few calls with small answers, one after the other.
import { useEffect, useState } from "preact/hooks";
import { call, type ApiError } from "../../api/client";
import { useGet } from "../../api/use";
import type { Schemas } from "../../api/types";
import { isAdmin } from "../../session";
import { heaviest, meanOf, peaksOf, type Arrivals, type Peak } from "./load";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const LOOKED_AT = 8; // minutes that are looked at by the second
const TOLD = 5; // peaks

export type Load = { density: Schemas["UpcomingDensity"] | undefined; error: ApiError | undefined; peaks: Peak[] | null; reload: () => void };

export function useLoad(now: number): Load {
  const from = Math.floor(now / MINUTE) * MINUTE;
  const density = useGet("/v1/upcoming/density", { query: { from: iso(from), to: iso(from + DAY), step: "1m" } });
  const workers = useGet("/v1/workers");
  const times = useGet(isAdmin.value ? "/v1/stats/series" : null, { query: { what: "run_time", by: "task", from: iso(Math.floor(now / 3_600_000) * 3_600_000 - DAY), step: "1h" } });
  const [peaks, setPeaks] = useState<Peak[] | null>(null);
  const isReady = density.data && workers.data && (times.data || times.error || !isAdmin.value);
  useEffect(() => {
    if (!isReady) return;
    let isOver = false;
    const minutes = heaviest(density.data!.buckets.map(({ at, n }) => ({ at: Date.parse(at), n })), LOOKED_AT);
    void look(minutes, workers.data!.workers, lengthsOf(times.data)).then((found) => isOver || setPeaks(found));
    return () => void (isOver = true);
  }, [density.data, workers.data, times.data, isReady]);
  return { density: density.data, error: density.error, peaks, reload: density.reload };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

async function look(minutes: number[], workers: Schemas["Worker"][], lengths: Map<string, number>): Promise<Peak[]> {
  const peaks: Peak[] = [];
  for (const at of minutes) {
    const answer = await call("get", "/v1/upcoming/density", { query: { from: iso(at), to: iso(at + MINUTE), step: "1s", by: "task,queue" } });
    if (answer.ok) peaks.push(...peaksOf(answer.value.groups.map(arrivalsOf), workers, lengths));
  }
  return peaks.sort((a, b) => (b.wait ?? 0) - (a.wait ?? 0) || b.n - a.n).slice(0, TOLD);
}

function arrivalsOf({ task, queue, buckets }: Schemas["UpcomingGroup"]): Arrivals {
  return { task: task ?? "", queue: queue ?? "", seconds: buckets.map(({ at, n }) => ({ at: Date.parse(at), n })) };
}

/** How long a run of each task takes, in ms, by the last day. */
function lengthsOf(answer: Schemas["SeriesAnswer"] | undefined): Map<string, number> {
  const lengths = new Map<string, number>();
  for (const one of answer?.series ?? []) {
    const sums: number[] = [];
    for (const point of one.points) point.buckets?.forEach((n, index) => (sums[index] = (sums[index] ?? 0) + n));
    const mean = meanOf(sums, answer!.edges.run_time ?? []);
    if (mean !== null && one.name) lengths.set(one.name, mean);
  }
  return lengths;
}
