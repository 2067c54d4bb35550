import { useGet } from "../../api/use";
import type { Job, Run, Schemas } from "../../api/types";
import { Button } from "../../components/Button";
import { Choice } from "../../components/Choice";
import { NextChange } from "../../components/NextChange";
import { Lane, placed, Timeline } from "../../components/Timeline";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { href, query, setQuery } from "../../router";
import { stateOf } from "../../states";
import { clock, duration, exact, now, readTime, zoneName } from "../../time";
import { lengthOf } from "../../windows";
import { NextRuns } from "./NextRuns";
import type { Occurrence } from "./ledger";
import { useJobRuns, useMinute } from "./useJobRuns";

const WINDOWS = ["1h", "6h", "24h", "7d", "30d"];
const MOST = 300; // of each kind

type Upcoming = Schemas["UpcomingRun"];
type Span = { from: number; to: number };

/** What was and what comes, on one axis and on two clocks: the viewer's and the schedule's. */
export function TimelineTab({ job }: { job: Job }) {
  const minute = useMinute();
  const usual = usualWindow(job, minute);
  const length = lengthOf(query.value.get("window") ?? usual);
  const centre = readTime(query.value.get("at")) ?? minute;
  const span = { from: centre - length / 2, to: centre + length / 2 };
  const { runs, gaps, coming, error, reload } = useTimes(job, span, minute);
  const zone = job.schedule.timezone ?? "UTC";
  return (
    <>
      <div class="timeline-head">
        <Choice label="Window" param="window" choices={WINDOWS} fallback={usual} />
        <Button label="Earlier" onClick={() => setQuery({ at: String(centre - length / 2) })}>←</Button>
        <Button onClick={() => setQuery({ at: undefined })} disabled={!query.value.has("at")}>Now</Button>
        <Button label="Later" onClick={() => setQuery({ at: String(centre + length / 2) })}>→</Button>
        <Legend />
      </div>
      {error && <Trouble error={error} onAgain={reload} />}
      <Timeline label="Past and coming runs" from={span.from} to={span.to} zone={zone}>
        <Lane name="Ran">{runs.map((run) => <RunBar key={run.run_id} run={run} span={span} />)}</Lane>
        <Lane name="Did not run">{gaps.map((one) => <GapBar key={one.scheduled_for + one.outcome} one={one} span={span} />)}</Lane>
        <Lane name="To come">{coming.items.map((one) => <ComingMark key={one.at} one={one} span={span} />)}</Lane>
      </Timeline>
      <Honesty runs={runs.length} coming={coming} />
      <div class="beside">
        <NextRuns job={job} />
        <NextChange schedule={job.schedule} zone={zone} />
      </div>
    </>
  );
}

/** The shortest one, from a day on, that contains the next run. */
function usualWindow(job: Job, minute: number): string {
  const ahead = job.next_run_at ? Date.parse(job.next_run_at) - minute : 0;
  return WINDOWS.slice(2).find((one) => ahead < lengthOf(one) / 2) ?? "24h";
}

/** Runs that had begun, occurrences without a run, and runs to come, in the span. */
function useTimes(job: Job, span: Span, minute: number) {
  const path = { id: job.job_id };
  const iso = (ms: number): string => new Date(ms).toISOString();
  const hasPast = span.from < minute;
  const hasFuture = span.to > minute - 60_000;
  const past = { start_time: iso(span.from), end_time: iso(Math.min(span.to, minute)), limit: MOST };
  const runs = useGet(hasPast ? "/v1/runs" : null, { query: { ...past, job_id: job.job_id } });
  const ledger = useGet(hasPast ? "/v1/jobs/{id}/occurrences" : null, { path, query: past });
  const coming = useGet(hasFuture ? "/v1/upcoming" : null, { query: { job_id: job.job_id, from: iso(Math.max(span.from, minute - 60_000)), to: iso(span.to), limit: MOST } });
  const reload = (): void => (runs.reload(), ledger.reload(), coming.reload());
  useJobRuns(job.job_id, reload);
  return {
    runs: hasPast ? runs.data?.runs.filter((run) => run.start_time) ?? [] : [],
    gaps: hasPast ? ledger.data?.occurrences.filter((one) => ["skipped", "coalesced", "missed"].includes(one.outcome)) ?? [] : [],
    coming: { items: hasFuture ? coming.data?.upcoming ?? [] : [], isCut: hasFuture && !!coming.data?.next_page_token },
    error: runs.error ?? ledger.error ?? coming.error,
    reload,
  };
}

function Legend() {
  const items: [string, string][] = [["succeeded", "succeeded"], ["running", "running"], ["dead", "dead"], ["skipped", "skipped or coalesced"], ["missed", "missed"], ["scheduled", "to come"]];
  return <p class="key-of-marks wide" aria-label="What marks mean">{items.map(([state, word]) => <span key={state}><i class={`cell ${stateOf(state).tone} is-${state}`} /> {word}</span>)}</p>;
}

function RunBar({ run, span }: { run: Run; span: Span }) {
  const start = Date.parse(run.start_time!);
  const end = run.end_time ? Date.parse(run.end_time) : Math.max(now(), start);
  const { tone, word } = stateOf(run.status);
  const text = `${word}, ${clock(start, zoneName(), now())}, ${duration(end - start)}${run.lag_ms ? `, ${duration(run.lag_ms)} after its time` : ""}${run.error_type ? `, ${run.error_type}` : ""}`;
  return <a class={`event ${tone} is-${run.status}`} href={href(`/runs/${run.run_id}`)} style={placed(start, span.from, span.to, end)} title={text} aria-label={text} />;
}

function GapBar({ one, span }: { one: Occurrence; span: Span }) {
  const at = Date.parse(one.scheduled_for);
  const until = Date.parse(one.until ?? one.scheduled_for);
  const { tone, word } = stateOf(one.outcome);
  return <span class={`event ${tone} is-${one.outcome}`} style={placed(at, span.from, span.to, until)} title={`${one.count > 1 ? `${one.count} ` : ""}${word}, ${exact(at, zoneName())}${one.reason ? `: ${one.reason}` : ""}`} />;
}

function ComingMark({ one, span }: { one: Upcoming; span: Span }) {
  const at = Date.parse(one.at);
  return <span class={one.note ? "event coming has-note warn" : "event coming quiet"} style={placed(at, span.from, span.to)} title={`${exact(at, zoneName())}\n${one.local}${one.note ? `\n${one.note}` : ""}`} />;
}

function Honesty({ runs, coming }: { runs: number; coming: { items: Upcoming[]; isCut: boolean } }) {
  const last = coming.items[coming.items.length - 1];
  if (runs < MOST && !coming.isCut) return null;
  return (
    <p class="hint">
      {runs >= MOST && <>The newest {MOST} runs of this window are shown. </>}
      {coming.isCut && last && <>Coming runs are shown up to <When at={last.at} as="clock" focusable />, {MOST} of them. </>}
      Choose a shorter window to see all.
    </p>
  );
}
