import { computed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { useGet } from "../../api/use";
import type { Run } from "../../api/types";
import type { Mark } from "../../components/Chart";
import { Button } from "../../components/Button";
import { Heat, type Box } from "../../components/Heat";
import { useMarks } from "../../marks";
import { runName } from "../../names";
import { href, query, setQuery } from "../../router";
import { isAdmin } from "../../session";
import { clock, duration, now, readTime, second, zoneName } from "../../time";
import { spanMs } from "../../times";
import { EDGES, gridOfRuns, gridOfSeries, rangeOf, rangeText, readRange, rowNames, type Grid } from "./lag";
import { waitsOf, type Wait } from "./waits";

const WINDOWS = ["1h", "6h", "24h"];
const COLUMNS_OF_A_WINDOW = 60;
const minute = computed(() => Math.floor(second.value / 60_000) * 60_000);

/** How late runs started, over time. A box that is dragged becomes a filter of the list below. */
export function LagHeat({ runs }: { runs: Run[] }) {
  const wanted = query.value.get("heat") ?? "";
  if (wanted === "off") return <p class="heat-head"><Button kind="quiet" onClick={() => setQuery({ heat: undefined })}>Show start lag</Button></p>;
  const span = WINDOWS.includes(wanted) ? wanted : WINDOWS[0]!;
  return isAdmin.value ? <OfEverybody span={span} /> : <OfTheList span={span} runs={runs} />;
}

function OfEverybody({ span }: { span: string }) {
  const from = minute.value - spanMs(span);
  const series = useGet("/v1/stats/series", { query: { what: "lag", from: new Date(from).toISOString() } });
  const marks = useMarks(from);
  const edges = series.data?.edges.lag ?? EDGES;
  const grid = useMemo(() => (series.data ? gridOfSeries(series.data) : null), [series.data]);
  return grid && <Map span={span} grid={grid} edges={edges} label="Start lag" marks={marks} />;
}

function OfTheList({ span, runs }: { span: string; runs: Run[] }) {
  const step = spanMs(span) / COLUMNS_OF_A_WINDOW;
  const grid = useMemo(() => gridOfRuns(runs, now() - spanMs(span), now(), step, EDGES), [runs, span]);
  return <Map span={span} grid={grid} edges={EDGES} label="Start lag of these runs" />;
}

function Map({ span, grid, edges, label, marks }: { span: string; grid: Grid; edges: number[]; label: string; marks?: Mark[] }) {
  const brush = ({ from, to, low, high }: Box): void =>
    setQuery({ ended_after: new Date(from).toISOString(), ended_before: new Date(to).toISOString(), lag: rangeText(rangeOf(low, high, edges)) }, {});
  const actions = (
    <span class="chips" role="group" aria-label="Window of the heat map">
      {WINDOWS.map((one) => <button key={one} type="button" class="chip" aria-pressed={one === span} onClick={() => setQuery({ heat: one })}>{one}</button>)}
      <button type="button" class="chip" onClick={() => setQuery({ heat: "off" })}>Hide</button>
    </span>
  );
  return <Heat label={label} times={grid.times} step={grid.step} rows={rowNames(edges)} counts={grid.counts} height={132} marks={marks} onBrush={brush} actions={actions} />;
}

/** The box that the list is filtered by, and what its runs waited for. */
export function InBox({ runs }: { runs: Run[] }) {
  const after = query.value.get("ended_after");
  const before = query.value.get("ended_before");
  const range = readRange(query.value.get("lag"));
  const isLag = range.over !== undefined || range.upTo !== undefined;
  const workers = useGet("/v1/workers");
  const resumed = useGet(isAdmin.value ? "/v1/audit" : null, { query: { action: "queue.resume", start_time: after ?? undefined } });
  const known = {
    runs,
    workers: workers.data?.workers ?? [],
    resumed: (resumed.data?.audit ?? []).map((line) => ({ queue: String((line.detail as { queue?: string }).queue), at: Date.parse(line.at) })),
  };
  const time = (text: string): string => {
    const at = readTime(text);
    return at === null ? text : clock(at, zoneName(), now());
  };
  return (
    <section class="in-box" aria-label="What is in the box">
      <p>
        <b>{runs.length} {runs.length === 1 ? "run" : "runs"}</b>
        {after && <> ended from {time(after)}</>}{before && <> up to {time(before)}</>}
        {isLag && <>, started {range.over !== undefined && <>more than {duration(range.over)}</>}{range.over !== undefined && range.upTo !== undefined && " and "}{range.upTo !== undefined && <>up to {duration(range.upTo)}</>} late</>}.
        {" "}<Button kind="quiet" onClick={() => setQuery({ ended_after: undefined, ended_before: undefined, lag: undefined })}>Leave the box</Button>
      </p>
      {runs.length > 0 && <Waits waits={waitsOf(runs, known)} />}
    </section>
  );
}

function Waits({ waits }: { waits: Wait[] }) {
  return (
    <table class="plain-table" aria-label="What they waited for">
      <thead><tr><th scope="col" class="end">Runs</th><th scope="col">What they probably waited for</th><th scope="col" class="end">Longest</th><th scope="col" class="wide">For instance</th></tr></thead>
      <tbody>
        {waits.map(({ reason, runs, worst }) => {
          const latest = runs.find((run) => run.lag_ms === worst)!;
          return (
            <tr key={reason}>
              <td class="end">{runs.length}</td><td>{reason}</td><td class="end">{duration(worst)}</td>
              <td class="wide"><a href={href(`/runs/${latest.run_id}`)}>{runName(latest)}</a></td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
