import { useMemo, useState } from "preact/hooks";
import { useGet, usePaged } from "../../api/use";
import { Example } from "../../components/Example";
import { Filters } from "../../components/Filters";
import { PageHead } from "../../components/PageHead";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { Button } from "../../components/Button";
import { Name } from "../../components/Name";
import { useEvents } from "../../live";
import { href, query, setQuery } from "../../router";
import { clock, duration, exact, localZone, now as present, readTime, second, zoneName } from "../../time";
import { known } from "../../windows";
import type { Schemas } from "../../api/types";
import { taskOptions } from "../../commands";
import { callJob } from "../../names";
import { Lanes } from "./Lanes";
import type { Coming } from "./load";
import { LoadAhead } from "./LoadAhead";
import { useLanes, useMoved, type Asked } from "./useLanes";
import { useLoad } from "./useLoad";

type Skip = Schemas["UpcomingSkip"];
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const WINDOWS: Record<string, number> = { "1h": HOUR, "6h": 6 * HOUR, "24h": 24 * HOUR, "7d": 168 * HOUR };
const CREEP = MINUTE; // the page moves on with the clock in steps of this

export default function Upcoming() {
  const now = useMinutes();
  const asked = useAsked(now);
  const load = useLoad(now);
  const tasks = useGet("/v1/tasks");
  const queues = useGet("/v1/queues");
  const { laned, error } = useLanes(asked);
  const runs = usePaged("/v1/upcoming", { query: { task: asked.task, queue: asked.queue, from: iso(asked.from), to: iso(asked.to), limit: 100 } }, (page) => page.upcoming);
  const rows = runs.items.filter((run) => Date.parse(run.at) > second.value);
  const zones = useZones(runs.items);
  const zone = query.value.get("clock") ?? zones.find((one) => one !== zoneName());
  const moved = useMoved(asked, [...new Set([...zones, ...(zone ? [zone] : [])])]);
  const skipped = useSkipped(asked);
  const look = (from: number, to: number): void => setQuery({ from: iso(Math.max(from, 0)), to: iso(to), window: undefined }, {});
  return (
    <>
      <PageHead title="Upcoming" />
      <LoadAhead load={load} onWindow={look} />
      <Filters filters={[
        { param: "window", label: "Window", choices: Object.keys(WINDOWS), one: true, fallback: query.value.has("from") ? undefined : "24h" },
        { param: "by", label: "Lanes by", choices: ["task", "queue"], one: true, fallback: "task" },
        { param: "task", label: "Task", suggestions: tasks.data?.tasks.map((task) => task.name) },
        { param: "queue", label: "Queue", suggestions: queues.data?.queues.map((queue) => queue.name) },
        { param: "clock", label: "Second clock", placeholder: zone ? `Also in ${zone}` : "Second clock", suggestions: zones },
      ]} />
      <Shown asked={asked} now={now} />
      {error && <Trouble error={error} />}
      {laned && <Lanes {...laned} from={asked.from} to={asked.to} by={asked.by} zone={zone} moved={moved} onWindow={look} />}
      {laned && laned.left > 0 && <p class="hint">{laned.left} more {asked.by}s have no lane here: filter to see theirs.</p>}
      {(moved.length > 0 || skipped.length > 0) && <Turned moved={moved} skipped={skipped} />}
      {runs.error && <Trouble error={runs.error} onAgain={runs.reload} />}
      {rows.length > 0 && <Table label="Runs to come" columns={columnsOf(zone)} rows={rows} keyOf={(run) => `${run.job_id} ${run.at}`} isStale={runs.loading} onEnd={runs.more} />}
      {!runs.loading && !runs.error && !runs.items.length && <Example title="Nothing comes in this window." command={(example) => `oncue jobs create ${taskOptions(example)} --schedule '0 9 * * 1-5' --name example`}>A recurring job, for example:</Example>}
    </>
  );
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** The time, by the minute, moved on by pulses: a page that is paused stands still. */
function useMinutes(): number {
  const [now, setNow] = useState(() => Math.floor(present() / CREEP) * CREEP);
  useEvents("pulse", () => setNow(Math.floor(present() / CREEP) * CREEP));
  return now;
}

/** What the URL asks for: a window from now, or one that was chosen. */
function useAsked(now: number): Asked {
  const params = query.value;
  return useMemo(() => {
    const from = readTime(params.get("from")) ?? now;
    const to = params.has("window") || !params.has("from") ? from + (known(WINDOWS, params.get("window")) ?? 24 * HOUR) : readTime(params.get("to")) ?? from + 24 * HOUR;
    const by = params.get("by") === "queue" ? "queue" : "task";
    return { from, to: Math.max(to, from + 1_000), by, task: params.get("task") ?? undefined, queue: params.get("queue") ?? undefined };
  }, [params, now]);
}

/** Time zones of schedules: those of what is listed, the most frequent first. */
function useZones(runs: Coming[]): string[] {
  return useMemo(() => {
    const counts = new Map<string, number>();
    for (const run of runs) if (run.timezone) counts.set(run.timezone, (counts.get(run.timezone) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]).map(([zone]) => zone);
  }, [runs]);
}

/** Which window is shown, and the way to others. */
function Shown({ asked: { from, to }, now }: { asked: Asked; now: number }) {
  const length = to - from;
  const move = (by: number): void => setQuery({ from: iso(Math.max(from + by, now)), to: iso(Math.max(from + by, now) + length), window: undefined }, {});
  return (
    <div class="window-shown">
      <span>{clock(from, zoneName(), present())} – {clock(to, zoneName(), present())} <span class="faint">{duration(length)}, {zoneName()}</span></span>
      <Button onClick={() => move(-length)} disabled={from <= now}>Earlier</Button>
      <Button onClick={() => move(length)}>Later</Button>
      <Button onClick={() => setQuery({ from: iso(Math.max(now, from - length)), to: iso(to + length), window: undefined }, {})}>Wider</Button>
      {query.value.has("from") && <Button onClick={() => setQuery({ from: undefined, to: undefined }, {})}>From now</Button>}
    </div>
  );
}

/** Occurrences that fall into a gap and are left out: nothing of them is in the lanes or the list. By the hour, so that it is asked once an hour. */
function useSkipped({ from, to, task, queue }: Asked): Skip[] {
  const query = { from: iso(Math.floor(from / HOUR) * HOUR), to: iso(Math.ceil(to / HOUR) * HOUR), task, queue };
  const found = useGet(to - from < 365 * 24 * HOUR ? "/v1/upcoming/skipped" : null, { query });
  return found.data?.skipped ?? [];
}

function Turned({ moved, skipped }: { moved: Coming[]; skipped: Skip[] }) {
  return (
    <section class="turned warn" aria-label="What changes of clocks do">
      <h2>Clocks are set in this window</h2>
      {skipped.length > 0 && (
        <ul class="bad" aria-label="What does not run">{skipped.slice(0, 20).map((one) => (
          <li key={one.job_id + one.at}><span class="glyph" aria-hidden="true">⇥</span> <a href={href(`/jobs/${one.job_id}`)}>{one.job_name ?? one.task}</a> does not run <span class="faint">{one.timezone}: {one.note}</span></li>
        ))}</ul>
      )}
      {skipped.length > 20 && <p class="hint">and {skipped.length - 20} more that do not run</p>}
      <ul>{moved.slice(0, 20).map((run) => <li key={run.job_id + run.at}><span class="glyph" aria-hidden="true">◷</span> <a href={href(`/jobs/${run.job_id}`)}>{run.job_name ?? run.task}</a> <span class="faint">{run.timezone}: {run.note}</span></li>)}</ul>
      {moved.length > 20 && <p class="hint">and {moved.length - 20} more</p>}
    </section>
  );
}

function columnsOf(zone: string | undefined): Column<Coming>[] {
  return [
    { head: "In", width: "6rem", cell: (run) => <When at={run.at} zone={run.timezone ?? undefined} /> },
    { head: zoneName() === localZone ? "Your clock" : zoneName(), width: "8.5rem", phoneWidth: "6.5rem", cell: (run) => <span class="number">{clock(Date.parse(run.at), zoneName(), present())}</span> },
    { head: "Its schedule’s clock", width: "14rem", wide: true, cell: (run) => <span class="cut faint" title={exact(Date.parse(run.at), run.timezone ?? "UTC")}>{clock(Date.parse(run.at), run.timezone ?? zone ?? "UTC", present())} {run.timezone}</span> },
    { head: "Job", cell: (run) => <a class="main-link" href={href(`/jobs/${run.job_id}`)}><Name of={callJob({ ...run, name: run.job_name })} /></a> },
    { head: "Task", width: "12%", wide: true, cell: (run) => <span class="cut">{run.task}</span> },
    { head: "Queue", width: "9%", wide: "very", cell: (run) => <span class="cut">{run.queue}</span> },
    { head: "Note", width: "18%", wide: true, cell: (run) => <span class="cut faint" title={run.note ?? undefined}>{run.note}</span> },
  ];
}
