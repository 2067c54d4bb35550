import { useMemo, useState } from "preact/hooks";
import { Button } from "../../components/Button";
import { Chart, type Line } from "../../components/Chart";
import { When } from "../../components/When";
import { Trouble } from "../../components/Trouble";
import { clock, duration, now, zoneName } from "../../time";
import type { Peak } from "./load";
import { Spread } from "./Spread";
import type { Load } from "./useLoad";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** The next 24 hours by the minute, and where more comes than workers can start. */
export function LoadAhead({ load, onWindow }: { load: Load; onWindow: (from: number, to: number) => void }) {
  const [spread, setSpread] = useState<Peak | null>(null);
  const { density, peaks, error } = load;
  if (error && !density) return <Trouble error={error} onAgain={load.reload} />;
  if (!density) return <div class="load-ahead is-empty" />;
  return (
    <section class="load-ahead" aria-label="Load ahead">
      <Ahead load={load} onWindow={onWindow} />
      {density.exact_until && <p class="hint">Counted whole until <When at={density.exact_until} as="clock" focusable />. After that, jobs that run often are left out: hollow bars are the least that comes.</p>}
      {peaks === null ? <p class="faint">Looking for peaks …</p> : peaks.length ? <ul class="peaks">{peaks.map((peak) => <One key={`${peak.at} ${peak.of[0]!.task}`} peak={peak} onSpread={() => setSpread(peak)} />)}</ul> : <p class="calm good"><span class="glyph" aria-hidden="true">✓</span> No peak of the next 24 hours has more than its workers can start within a second.</p>}
      {spread && <Spread peak={spread} onClose={() => setSpread(null)} onDone={load.reload} />}
    </section>
  );
}

function Ahead({ load, onWindow }: { load: Load; onWindow: (from: number, to: number) => void }) {
  const { density, peaks } = load;
  const from = Date.parse(density!.start_time);
  const [times, lines] = useMemo(() => {
    const found = new Map(density!.buckets.map((bucket) => [Date.parse(bucket.at), bucket]));
    const times = Array.from({ length: DAY / MINUTE }, (_, index) => from + index * MINUTE);
    const over = new Set((peaks ?? []).map((peak) => Math.floor(peak.at / MINUTE) * MINUTE));
    const of = (test: (at: number, atLeast: boolean) => boolean) => times.map((at) => (found.has(at) && test(at, found.get(at)!.at_least) ? found.get(at)!.n : null));
    const lines: Line[] = [
      { label: "most in a minute", tone: "quiet", bars: true, values: of((at, atLeast) => !over.has(at) && !atLeast) },
      { label: "at least", tone: "quiet", bars: true, dash: true, values: of((at, atLeast) => !over.has(at) && atLeast) },
      { label: "more than places", tone: "warn", bars: true, values: of((at) => over.has(at)) },
    ];
    return [times, lines.filter((line) => line.values.some(Boolean) || line.tone === "quiet" && !line.dash)];
  }, [density, peaks]);
  const marks = useMemo(() => (peaks ?? []).map((peak) => ({ at: peak.at, text: words(peak) })), [peaks]);
  return <Chart label="Load ahead" times={times} lines={lines} marks={marks} window={[from, from + DAY]} height={130} last={most} onBrush={onWindow} />;
}

function most(values: (number | null)[]): number {
  return Math.max(0, ...values.map((value) => value ?? 0));
}

/** "37 runs at 00:00, 4 places: about 9 min of lag" */
export function words({ at, n, places, wait }: Peak): string {
  const when = clock(at, zoneName(), now()).slice(0, wholeMinute(at) ? 5 : undefined);
  const time = /^\d\d-/.test(clock(at, zoneName(), now())) ? clock(at, zoneName(), now()) : when;
  const lag = wait === null ? `${Math.ceil(n / places)} turns` : `about ${duration(Math.round(wait / 1_000) * 1_000)} of lag`;
  return `${n.toLocaleString("en")} runs at ${time}, ${places.toLocaleString("en")} ${places === 1 ? "place" : "places"}: ${lag}`;
}

function wholeMinute(at: number): boolean {
  return at % MINUTE === 0;
}

function One({ peak, onSpread }: { peak: Peak; onSpread: () => void }) {
  const tasks = [...new Set(peak.of.map((one) => one.task))];
  return (
    <li class="peak warn">
      <span class="glyph" aria-hidden="true">◷</span>
      <div>
        <strong>{words(peak)}</strong>
        <p class="faint">{tasks.slice(0, 3).join(", ")}{tasks.length > 3 && ` and ${tasks.length - 3} more tasks`}; {peak.length === null ? "how long they take is not known yet" : `each takes about ${duration(peak.length)}`}</p>
      </div>
      <Button changes="jobs" onClick={onSpread}>Spread them …</Button>
    </li>
  );
}
