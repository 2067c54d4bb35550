import { useMemo, useRef, useState } from "preact/hooks";
import { useGet } from "../../api/use";
import { Filters } from "../../components/Filters";
import { PageHead } from "../../components/PageHead";
import { Trouble } from "../../components/Trouble";
import { useEvents } from "../../live";
import { useMarks } from "../../marks";
import { useThrottled } from "../../refresh";
import { query } from "../../router";
import { isAdmin, ownOnly } from "../../session";
import { now as present } from "../../time";
import { Calm } from "./Calm";
import { Charts, type Oldest } from "./Charts";
import { ErrorsToday } from "./ErrorsToday";
import { Fleet } from "./Fleet";
import { Hour } from "./Hour";
import { Problems } from "./Problems";
import { OWN_WINDOW, WINDOWS, type Window } from "./series";

const TURN = 10_000; // ms: how often numbers are asked for that no event tells
const AT_MOST_EVERY = 1_000; // ms, while many runs die
const KEPT_AGES = 400;

export default function Overview() {
  const window = useWindow();
  const now = useTurns();
  const problems = useGet("/v1/problems");
  useEvents("queue", problems.reload);
  useEvents("worker", problems.reload);
  const series = useSeries(window, now);
  const hour = useGet("/v1/upcoming/density", { query: { from: iso(floor(now, 60_000)), to: iso(floor(now, 60_000) + 3_600_000), step: "1m" } });
  const upcoming = useGet("/v1/upcoming", { query: { limit: 50 } });
  const errors = useGet("/v1/errors", { query: { limit: 100 } });
  useEvents("dead", useThrottled(() => (problems.reload(), errors.reload()), AT_MOST_EVERY));
  const fleet = useFleet();
  const marks = useMarks(floor(now - window.length, window.step));
  useOnTurn(now, () => (problems.reload(), upcoming.reload(), errors.reload())); // groups of errors follow their events a little later
  const data = series.data;
  return (
    <>
      <PageHead title="Overview" />
      {ownOnly.value && <p class="hint">Everybody’s: these numbers are kept for all users together.</p>}
      {problems.error && !problems.data && <Trouble error={problems.error} onAgain={problems.reload} />}
      {problems.data && (problems.data.problems.length
        ? <Problems problems={problems.data.problems} more={problems.data.more} onDone={problems.reload} />
        : <Calm next={upcoming.data?.upcoming[0]} recent={window === WINDOWS[0] || window === OWN_WINDOW ? series : null} />)}
      <div class="overview-window">{isAdmin.value && <Filters filters={[{ param: "window", label: "Window of the charts", choices: WINDOWS.map((one) => one.name), one: true, fallback: WINDOWS[0]!.name }]} />}</div>
      {series.error && !data && <Trouble error={series.error} onAgain={series.reload} />}
      {data ? <Charts answer={data} window={window} now={now} marks={marks} oldest={fleet.oldest} hasMeasures={isAdmin.value} /> : <div class="charts is-empty" />}
      <Fleet workers={fleet.workers} queues={fleet.queues} />
      <div class="overview-columns">
        {hour.data && upcoming.data && <Hour density={hour.data} upcoming={upcoming.data.upcoming} now={now} />}
        {errors.data && <ErrorsToday groups={errors.data.errors} now={now} />}
      </div>
    </>
  );
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function floor(ms: number, step: number): number {
  return Math.floor(ms / step) * step;
}

function useWindow(): Window {
  if (!isAdmin.value) return OWN_WINDOW;
  return WINDOWS.find((one) => one.name === query.value.get("window")) ?? WINDOWS[0]!;
}

/** The time, which moves on with pulses, every ten seconds: a page that is paused stands still. */
function useTurns(): number {
  const [now, setNow] = useState(present);
  useEvents("pulse", () => setNow((old) => (present() - old < TURN ? old : present())));
  return now;
}

function useOnTurn(now: number, act: () => void): void {
  const before = useRef(now);
  if (before.current !== now) {
    before.current = now;
    queueMicrotask(act);
  }
}

function useSeries(window: Window, now: number) {
  const ends = "succeeded,dead,retried,cancelled,expired";
  const from = floor(now - window.length, window.step) + window.step;
  const what = isAdmin.value ? `lag,${ends}` : ends;
  const answer = useGet("/v1/stats/series", { query: { what, from: iso(from), step: `${window.step / 60_000}m` } });
  useOnTurn(now, answer.reload);
  return answer;
}

function useFleet() {
  const workers = useGet("/v1/workers");
  const queues = useGet("/v1/queues");
  const now = useTurns();
  useEvents("worker", workers.reload);
  useEvents("queue", queues.reload);
  useOnTurn(now, () => (workers.reload(), queues.reload()));
  const ages = useRef<Oldest[]>([]);
  const oldest = useMemo(() => {
    if (queues.data) {
      const ms = Math.max(0, ...queues.data.queues.map((queue) => (queue.oldest_due_seconds ?? 0) * 1_000));
      ages.current = [...ages.current, { at: present(), ms }].slice(-KEPT_AGES);
    }
    return ages.current;
  }, [queues.data]);
  return { workers: workers.data?.workers ?? [], queues: queues.data?.queues ?? [], oldest };
}
