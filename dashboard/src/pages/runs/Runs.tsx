import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useGet, usePaged, type Paged } from "../../api/use";
import type { Run } from "../../api/types";
import { taskOptions } from "../../commands";
import { Empty } from "../../components/Empty";
import { Example } from "../../components/Example";
import { Filters, type Filter } from "../../components/Filters";
import { LookedBack } from "../../components/LookedBack";
import { PageHead } from "../../components/PageHead";
import { Table } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { useEvents } from "../../live";
import { runName, shortId } from "../../names";
import { useThrottled } from "../../refresh";
import { query } from "../../router";
import { FINAL } from "../../runs";
import { can, ownOnly } from "../../session";
import { now } from "../../time";
import { spanMs } from "../../times";
import { BulkBar } from "./BulkBar";
import { isWanted, withRunEvents, type Wanted } from "./changes";
import { COLUMNS } from "./columns";
import { isInRange, readRange } from "./lag";
import { InBox, LagHeat } from "./LagHeat";

const FILTERS = ["status", "job_id", "task", "queue", "error_type", "worker_id", "trigger", "ended_after", "ended_before"] as const;
const STATUSES = ["running", "queued", "retrying", "scheduled", ...FINAL];
const MOST_ROWS = 1_000; // that arrived live; then the list begins anew
const AT_MOST_EVERY = 1_000; // ms: for what events do not tell (a run that is queued)

const chosen = signal<ReadonlySet<string>>(new Set());

/** What the URL asks for, as the API takes it. `ended=1h` is the last hour, from when it was asked for. */
function useWanted(): Wanted {
  const ended = query.value.get("ended");
  const since = useMemo(() => (ended && spanMs(ended) ? new Date(now() - spanMs(ended)).toISOString() : undefined), [ended]);
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.value.get(name) ?? undefined])) as Wanted;
  return { ...filters, ended_after: filters.ended_after ?? since, user_id: ownOnly.value };
}

export default function Runs() {
  const wanted = useWanted();
  const question = JSON.stringify(wanted);
  const isFiltered = Object.entries(wanted).some(([name, value]) => value && name !== "user_id");
  const range = readRange(query.value.get("lag"));
  const runs = usePaged("/v1/runs", { query: wanted as object }, (page) => page.runs);
  useEffect(() => () => void (chosen.value = new Set()), [question]);
  useLive(runs, wanted, question);
  const shown = useMemo(() => runs.items.filter((run) => isInRange(run, range)), [runs.items, range.over, range.upTo]);
  const isInBox = query.value.has("lag") || query.value.has("ended_before");
  return (
    <>
      <PageHead title="Runs" />
      <Filters filters={useFilters(!isFiltered)} />
      <LagHeat runs={runs.items} />
      {runs.error && <Trouble error={runs.error} onAgain={runs.reload} />}
      {isInBox && !runs.loading && <InBox runs={shown} />}
      {shown.length > 0 && (
        <Table label="Runs" columns={COLUMNS} rows={shown} keyOf={(run) => run.run_id} nameOf={(run) => `${runName(run)} ${shortId(run.run_id)}`} chosen={can("runs") ? chosen : undefined} isStale={runs.loading} onEnd={() => runs.lookedBackTo || runs.more()} />
      )}
      {!runs.loading && !runs.error && !shown.length && <Nothing isFiltered={isFiltered} hasMore={runs.hasMore} />}
      <LookedBack to={runs.lookedBackTo} hasMore={runs.hasMore} onMore={runs.more} />
      <BulkBar runs={shown} chosen={chosen} wanted={wanted} isInBox={isInBox} />
    </>
  );
}

function Nothing({ isFiltered, hasMore }: { isFiltered: boolean; hasMore: boolean }) {
  if (hasMore) return <Empty title="Nothing so far." />;
  if (isFiltered) return <Empty title="No run matches these filters." command="oncue runs list" />;
  return <Example title="Nothing has run yet." command={(example) => `oncue jobs create ${taskOptions(example)} --wait`}>Start something, and watch it here:</Example>;
}

function useFilters(isUnfiltered: boolean): Filter[] {
  const tasks = useGet("/v1/tasks");
  const workers = useGet("/v1/workers");
  const counts = useCounts();
  return [
    { param: "status", label: "Status", choices: STATUSES, notes: isUnfiltered ? counts : undefined },
    { param: "ended", label: "Ended in the last", choices: ["15m", "1h", "24h"], one: true, names: { "15m": "ended in 15 min", "1h": "1 h", "24h": "24 h" } },
    { param: "task", label: "Task", suggestions: tasks.data?.tasks.map((task) => task.name) },
    { param: "queue", label: "Queue" },
    { param: "error_type", label: "Error type" },
    { param: "worker_id", label: "Worker", placeholder: "Worker id", suggestions: workers.data?.workers.map((worker) => worker.worker_id), names: Object.fromEntries((workers.data?.workers ?? []).map((worker) => [worker.worker_id, worker.name ?? ""])) },
    { param: "trigger", label: "Trigger", suggestions: ["schedule", "run_now", "backfill", "requeue", "catch_up"] },
    { param: "job_id", label: "Job", placeholder: "Job id" },
  ];
}

/** How many runs have each status, "10,001+" if there may be more. */
function useCounts(): Record<string, string> | undefined {
  const counts = useGet("/v1/counts", { query: { user_id: ownOnly.value } });
  const soon = useThrottled(counts.reload, 3 * AT_MOST_EVERY);
  useEvents("run", soon);
  useEvents("job", soon);
  if (!counts.data) return undefined;
  const text = ({ n, at_least }: { n: number; at_least: boolean }): string => `${n.toLocaleString("en")}${at_least ? "+" : ""}`;
  return Object.fromEntries(Object.entries(counts.data.runs).filter(([, count]) => count.n).map(([status, count]) => [status, text(count)]));
}

function useLive(runs: Paged<Run>, wanted: Wanted, question: string): void {
  const soon = useThrottled(runs.reload, AT_MOST_EVERY);
  const due = useRef<number | null>(null);
  useEvents("run", (events) => {
    if (runs.items.length > MOST_ROWS) return soon();
    const known = new Set(runs.items.map((run) => run.run_id));
    if (wanted.user_id && events.some((run) => !known.has(run.run_id))) soon(); // events do not tell whose run it is
    runs.update((shown) => withRunEvents(shown, events, (run) => isWanted(run, wanted) && (!wanted.user_id || known.has(run.run_id)), !runs.hasMore));
  }, [question, runs.hasMore, wanted.user_id ? runs.items : runs.items.length > MOST_ROWS]);
  useEvents("job", soon);
  useEvents("pulse", (pulses) => { // a run that is queued sends no event
    const now = pulses[pulses.length - 1]!.due;
    if (due.current !== null && due.current !== now) soon();
    due.current = now;
  });
}
