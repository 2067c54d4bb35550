import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Job } from "../../api/types";
import { quoted } from "../../commands";
import { Button } from "../../components/Button";
import { Chart, type Line } from "../../components/Chart";
import { Code } from "../../components/Code";
import { Dialog } from "../../components/Dialog";
import { Field } from "../../components/Field";
import { Progress } from "../../components/Progress";
import { jobName } from "../../names";
import { isRecurring } from "../../schedules";
import { toast, words } from "../../toasts";
import { duration } from "../../time";
import { goodJitter, JITTERS, jitterText, waitAfter, type Peak } from "./load";

const MINUTE = 60_000;
const MOST = 200; // jobs in one act
const NAMED = 5;
const LISTED = 1_000; // runs of a peak
const SELDOM = 60 * MINUTE; // jobs that run more often stay where they are

type Loaded = { jobs: Job[]; left: number; most: number };
type Props = { peak: Peak; onClose: () => void; onDone: () => void };

/** Spreads the jobs of a peak by jitter: what it would do first, then the act. */
export function Spread({ peak, onClose, onDone }: Props) {
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const [done, setDone] = useState<number | null>(null);
  const [description, setDescription] = useState("");
  useEffect(() => void load(peak).then(setLoaded), []);
  const jitter = chosen ?? (loaded ? goodJitter(peak, loaded.most) : JITTERS[0]!);
  const options = useMemo(() => JITTERS.filter((one) => one <= (loaded?.most ?? 0)).map((jitter) => ({ jitter, words: duration(jitter) + lagWords(peak, jitter) })), [peak, loaded]);
  const first = loaded?.jobs[0];
  useEffect(() => {
    if (first) void previewed(first, jitter).then(setDescription);
  }, [first, jitter]);
  const act = async (): Promise<void> => {
    const refused = await spread(loaded!.jobs, jitter, setDone);
    onClose();
    onDone();
    const many = loaded!.jobs.length - refused.length;
    toast(`Spread: ${many} ${many === 1 ? "job has" : "jobs have"} ${jitterText(jitter)} of jitter.${refused.length ? ` Refused: ${refused[0]}` : ""}`, refused.length > 0);
  };
  return (
    <Dialog title={`Spread ${peak.n.toLocaleString("en")} runs`} onClose={onClose} wide>
      {!loaded ? <p role="status">Reading the jobs …</p> : !loaded.jobs.length ? <p>These jobs run once, more than once an hour, or have jitter already: there is nothing to spread.</p> : (
        <>
          <Field label="Each run starts up to this much later" hint="The nominal time stays. Which part of it a run gets is drawn anew for each occurrence.">
            <select value={String(jitter)} onChange={(event: Event) => setChosen(Number((event.currentTarget as HTMLSelectElement).value))}>
              {options.map(({ jitter, words }) => <option key={jitter} value={String(jitter)}>{words}</option>)}
            </select>
          </Field>
          <Before peak={peak} jitter={jitter} />
          <p>
            It changes the schedules of {loaded.jobs.length} {loaded.jobs.length === 1 ? "job" : "jobs"}: {loaded.jobs.slice(0, NAMED).map(jobName).join(", ")}{loaded.jobs.length > NAMED && ` and ${loaded.jobs.length - NAMED} more`}.
            {loaded.left > 0 && ` ${loaded.left} stay as they are: they run once, more than once an hour, or have jitter already.`}
          </p>
          {description && <p class="faint">{jobName(first!)} would run {description}.</p>}
          <Code text={commandsOf(loaded.jobs, jitter)} label="the same as commands" />
          <footer>
            {done !== null && <Progress label="Progress of spreading" done={done} total={loaded.jobs.length} />}
            <Button onClick={onClose}>Leave them</Button>
            <Button kind="primary" changes="jobs" onClick={act}>Spread {loaded.jobs.length} {loaded.jobs.length === 1 ? "job" : "jobs"} over {duration(jitter)}</Button>
          </footer>
        </>
      )}
    </Dialog>
  );
}

function lagWords(peak: Peak, jitter: number): string {
  const wait = waitAfter(peak, jitter);
  return wait === null ? "" : `: about ${duration(wait)} of lag`;
}

/** How many start in each minute now, and with jitter on average. */
function Before({ peak, jitter }: { peak: Peak; jitter: number }) {
  const from = Math.floor(peak.at / MINUTE) * MINUTE;
  const minutes = Math.min(Math.max(jitter / MINUTE + 2, 5), 122);
  const [times, lines] = useMemo(() => {
    const times = Array.from({ length: minutes }, (_, index) => from + index * MINUTE);
    const each = (peak.n * MINUTE) / jitter;
    const lines: Line[] = [
      { label: "now", tone: "warn", bars: true, dash: true, values: times.map((_, index) => (index ? null : peak.n)) },
      { label: "then, on average", tone: "running", bars: true, values: times.map((at) => (at < from + jitter ? each : null)) },
    ];
    return [times, lines];
  }, [peak, jitter]);
  return <Chart label="Starts by the minute" times={times} lines={lines} window={[from, from + minutes * MINUTE]} height={120} show={(n) => n.toLocaleString("en", { maximumFractionDigits: 1 })} />;
}

/** The jobs that can be spread: those that recur, at most once an hour, and have no jitter. */
async function load(peak: Peak): Promise<Loaded> {
  const ids = await jobsOf(peak);
  const jobs: Job[] = [];
  await inTurns(ids.slice(0, MOST), async (id) => {
    const answer = await call("get", "/v1/jobs/{id}", { path: { id } });
    if (answer.ok && isRecurring(answer.value.schedule) && !answer.value.schedule.jitter) jobs.push(answer.value);
  });
  const gaps = await gapsOf(jobs);
  const rare = jobs.filter((job) => gaps.get(JSON.stringify(job.schedule))! >= SELDOM);
  return { jobs: rare, left: ids.length - rare.length, most: Math.min(...rare.map((job) => gaps.get(JSON.stringify(job.schedule))! / 2)) };
}

/** The jobs whose runs come in the minute of a peak, of the tasks and queues that share its places. */
async function jobsOf({ at, of }: Peak): Promise<string[]> {
  const from = Math.floor(at / MINUTE) * MINUTE;
  const answer = await call("get", "/v1/upcoming", { query: { from: new Date(from).toISOString(), to: new Date(from + MINUTE).toISOString(), limit: LISTED } });
  const shared = new Set(of.map(({ task, queue }) => JSON.stringify([task, queue])));
  const runs = answer.ok ? answer.value.upcoming.filter(({ task, queue }) => shared.has(JSON.stringify([task, queue]))) : [];
  return [...new Set(runs.map((run) => run.job_id))];
}

/** The time between the next two occurrences of each schedule: a run must not pass the next one of its job. */
async function gapsOf(jobs: Job[]): Promise<Map<string, number>> {
  const gaps = new Map<string, number>();
  for (const { schedule } of jobs) {
    const key = JSON.stringify(schedule);
    if (gaps.has(key)) continue;
    const answer = await call("post", "/v1/schedules/preview", { body: { schedule, count: 2 } });
    const [first, second] = answer.ok ? answer.value.occurrences.map((one) => Date.parse(one.at)) : [0, 0];
    gaps.set(key, second === undefined ? Infinity : second - first!);
  }
  return gaps;
}

function withJitter(job: Job, jitter: number) {
  return { ...job.schedule, jitter: jitterText(jitter) };
}

/** The server's own words for what the first job would do, or why it refuses. */
async function previewed(job: Job, jitter: number): Promise<string> {
  const answer = await call("post", "/v1/jobs/{id}/preview", { path: { id: job.job_id }, query: { count: 1 }, body: { schedule: withJitter(job, jitter) } });
  return answer.ok ? answer.value.after.description : words(answer.error);
}

async function spread(jobs: Job[], jitter: number, onDone: (n: number) => void): Promise<string[]> {
  const refused: string[] = [];
  let n = 0;
  await inTurns(jobs, async (job) => {
    const answer = await call("patch", "/v1/jobs/{id}", { path: { id: job.job_id }, body: { schedule: withJitter(job, jitter) }, headers: { "If-Match": `"${job.version}"` } });
    if (!answer.ok) refused.push(`${jobName(job)}: ${words(answer.error)}`);
    onDone(++n);
  });
  return refused;
}

const AT_A_TIME = 6;

async function inTurns<T>(all: T[], act: (one: T) => Promise<void>): Promise<void> {
  for (let first = 0; first < all.length; first += AT_A_TIME) await Promise.all(all.slice(first, first + AT_A_TIME).map(act));
}

/** One command for all jobs with the same schedule. */
function commandsOf(jobs: Job[], jitter: number): string {
  const bySchedule = new Map<string, string[]>();
  for (const job of jobs) {
    const schedule = JSON.stringify(withJitter(job, jitter));
    bySchedule.set(schedule, [...(bySchedule.get(schedule) ?? []), job.job_id]);
  }
  return [...bySchedule].map(([schedule, ids]) => `oncue jobs edit ${ids.map(quoted).join(" ")} --schedule ${quoted(schedule)}`).join("\n");
}
