import { useMemo } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { Chart, type Line, type Mark } from "../../components/Chart";
import { Heat } from "../../components/Heat";
import { duration } from "../../time";
import { PULSE_STEP } from "./beats";
import { beats } from "./pulses";
import { counts, heatOf, rates, steps, type Window } from "./series";

type Props = { answer: Schemas["SeriesAnswer"]; window: Window; now: number; marks: Mark[]; oldest: Oldest[]; hasMeasures: boolean };
/** How long the oldest due run had been due, in ms. */
export type Oldest = { at: number; ms: number };

const HEIGHT = 150;
const SHORTEST = 300_000; // ms, of the chart that begins when the page is opened

/** Four charts of one window, with the same marks of change. */
export function Charts(props: Props) {
  const { window, now } = props;
  const span: [number, number] = [now - window.length, now];
  return (
    <section class="charts" aria-label="Charts">
      <Starts {...props} span={span} />
      <Lags {...props} span={span} />
      <Ends {...props} span={span} />
      <Depth {...props} span={span} />
    </section>
  );
}

const short = (value: number): string => value.toLocaleString("en", { maximumSignificantDigits: 3 });

type Spanned = Props & { span: [number, number] };

/** By the minute as the server kept it, then by ten seconds as this tab saw it. */
function Starts({ answer, window, now, marks, span, hasMeasures }: Spanned) {
  const seen = beats.value.filter((beat) => beat.at + PULSE_STEP <= now && beat.at >= span[0]);
  const isLive = window.name === "1h" || !hasMeasures;
  const [times, values] = useMemo(() => {
    const until = isLive && seen.length ? seen[0]!.at : now;
    const kept = hasMeasures ? steps(span[0], until, window.step) : [];
    const past = rates(counts(answer.series, "lag", kept), kept, window.step, 1_000, now);
    const live = isLive ? seen : [];
    return [[...kept, ...live.map((beat) => beat.at)], [...past, ...live.map((beat) => beat.started)]];
  }, [answer, seen.length, span[1]]);
  const lines: Line[] = [{ label: "per second", values, tone: "running", fill: true }];
  return <Chart label="Starts" times={times} lines={lines} show={short} least={0.1} marks={marks} window={span} height={HEIGHT} />;
}

function Lags({ answer, window, now, marks, span, hasMeasures }: Spanned) {
  const times = useMemo(() => steps(span[0], now, window.step), [span[1], window.step]);
  const heat = useMemo(() => heatOf(answer.series, answer.edges.lag ?? [], times), [answer, times]);
  if (!hasMeasures) return <Unkept />;
  return <Heat label="Start lag" times={times} step={window.step} rows={heat.rows} counts={heat.counts} marks={marks} height={HEIGHT} />;
}

function Unkept() {
  return (
    <figure class="chart">
      <figcaption><span class="chart-title">Start lag</span></figcaption>
      <p class="faint">How late runs start is kept for all users together: administrators see it here. That of one job is on its page.</p>
    </figure>
  );
}

const ENDS = [
  { label: "succeeded", tone: "good" },
  { label: "retried", tone: "warn", dash: true },
  { label: "dead", tone: "bad" },
  { label: "cancelled", tone: "quiet" },
  { label: "expired", tone: "quiet", dash: true },
] as const;

function Ends({ answer, window, now, marks, span }: Spanned) {
  const minute = 60_000;
  const [times, lines] = useMemo(() => {
    const times = steps(span[0], now, window.step);
    const lines: Line[] = ENDS.map((line) => ({ ...line, values: rates(counts(answer.series, line.label, times), times, window.step, minute, now) }));
    return [times, lines.filter((line) => line.label === "succeeded" || line.label === "dead" || line.values.some(Boolean))];
  }, [answer, span[1]]);
  return <Chart label="Ends per minute" times={times} lines={lines} show={short} marks={marks} window={span} height={HEIGHT} />;
}

/** Not kept by the server: drawn since this tab looks. */
function Depth({ marks, now, oldest }: Spanned) {
  const from = Math.min(beats.value[0]?.at ?? now, now - SHORTEST);
  const [times, lines] = useMemo(() => {
    const seen = beats.value;
    const ages = new Map(oldest.map((one) => [Math.floor(one.at / PULSE_STEP) * PULSE_STEP, one.ms]));
    const lines: Line[] = [
      { label: "due", tone: "warn", values: seen.map((beat) => beat.due), fill: true },
      { label: "running", tone: "running", values: seen.map((beat) => beat.running) },
      { label: "oldest due", tone: "bad", dash: true, values: seen.map((beat) => ages.get(beat.at) ?? null), right: (ms) => duration(ms) },
    ];
    return [seen.map((beat) => beat.at), lines];
  }, [beats.value, oldest]);
  return <Chart label="Depth since you look" times={times} lines={lines} marks={marks} window={[from, now]} height={HEIGHT} />;
}
