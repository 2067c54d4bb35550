import { computed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { useGet } from "../../api/use";
import { Chart } from "../../components/Chart";
import { useMarks } from "../../marks";
import { usePulse } from "../../refresh";
import { isAdmin } from "../../session";
import { second, shortDuration } from "../../time";

const EVERY = 15_000; // ms: the series has a point a minute
const MINUTE = 60_000;
const anHourAgo = computed(() => Math.floor(second.value / MINUTE - 60) * MINUTE);

/** Attempts and start lag of the last hour, minute by minute; for administrators. */
export function QueueHistory({ queue }: { queue: string }) {
  return isAdmin.value ? <LastHour queue={queue} /> : null;
}

function LastHour({ queue }: { queue: string }) {
  const series = useGet("/v1/stats/series", { query: { what: "attempts,lag", by: "queue" } });
  usePulse((now) => now.at, series.reload, EVERY);
  const shown = useMemo(() => series.data && linesOf(series.data, queue), [series.data, queue]);
  const marks = useMarks(anHourAgo.value);
  if (!shown?.times.length) return null;
  return (
    <section class="two-charts" aria-label="The last hour">
      <Chart label="Attempts a minute" times={shown.times} lines={[{ label: "ended", values: shown.attempts, tone: "running", bars: true }]} marks={marks} height={120} />
      <Chart label="Start lag" times={shown.times} lines={[{ label: "p99", values: shown.p99, tone: "warn", bars: true }, { label: "p50", values: shown.p50, tone: "quiet", bars: true }]} show={shortDuration} marks={marks} height={120} />
    </section>
  );
}

type Point = { at: string; n: number; p50_ms?: number | null; p99_ms?: number | null };
type Series = { start_time: string; end_time: string; step: string; series: { what: string; name: string | null; points: Point[] }[] };

/** Every minute of the window; one without a point had nothing. */
function linesOf(data: unknown, queue: string) {
  const { start_time, end_time, series } = data as Series;
  const own = (what: string): Map<number, Point> => new Map(series.find((one) => one.what === what && one.name === queue)?.points.map((point) => [Date.parse(point.at), point]) ?? []);
  const attempts = own("attempts");
  const lag = own("lag");
  if (!attempts.size) return { times: [], attempts: [], p50: [], p99: [] };
  const first = Math.ceil(Date.parse(start_time) / MINUTE) * MINUTE;
  const times = Array.from({ length: Math.max(0, Math.floor((Date.parse(end_time) - first) / MINUTE)) }, (_, minute) => first + minute * MINUTE);
  return {
    times,
    attempts: times.map((at) => attempts.get(at)?.n ?? 0),
    p50: times.map((at) => lag.get(at)?.p50_ms ?? null),
    p99: times.map((at) => lag.get(at)?.p99_ms ?? null),
  };
}
