import { useMemo } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { Chart, type Line } from "../../components/Chart";
import { When } from "../../components/When";
import { href } from "../../router";
import { steps } from "./series";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const LISTED = 6;

type Props = { density: Schemas["UpcomingDensity"]; upcoming: Schemas["UpcomingRun"][]; now: number };

/** What comes within an hour: how much by the minute, and which jobs come first. */
export function Hour({ density, upcoming, now }: Props) {
  const from = Math.floor(now / MINUTE) * MINUTE;
  const [times, lines] = useMemo(() => {
    const times = steps(from, from + HOUR, MINUTE);
    const found = new Map(density.buckets.map((bucket) => [Date.parse(bucket.at), bucket]));
    const of = (atLeast: boolean) => times.map((at) => (found.get(at)?.at_least === atLeast ? found.get(at)!.n : null));
    const lines: Line[] = [{ label: "most in a minute", tone: "quiet", bars: true, values: of(false) }];
    if (of(true).some(Boolean)) lines.push({ label: "at least", tone: "quiet", bars: true, dash: true, values: of(true) });
    return [times, lines];
  }, [density, from]);
  const isCut = density.buckets.some((bucket) => bucket.at_least);
  return (
    <section aria-label="The coming hour">
      <Chart label="The coming hour" times={times} lines={lines} window={[from, from + HOUR]} height={110} last={(values) => Math.max(0, ...values.map((value) => value ?? 0))} />
      {isCut && density.exact_until && <p class="hint">Counted whole until <When at={density.exact_until} as="clock" focusable />; after that there may be more.</p>}
      <ul class="nexts">
        {firstOfEach(upcoming).map((run) => (
          <li key={run.job_id}>
            <a class="main-link" href={href(`/jobs/${run.job_id}`)}>{run.job_name ?? run.task}</a>
            {run.note && <span class="faint cut" title={run.note}>{run.note}</span>}
            <When at={run.at} zone={run.timezone ?? undefined} />
          </li>
        ))}
        {!upcoming.length && <li class="faint">Nothing is to come.</li>}
      </ul>
      <p><a href={href("/upcoming")}>Upcoming</a></p>
    </section>
  );
}

/** One run of each job: a job that runs every second would fill the list. */
function firstOfEach(upcoming: Schemas["UpcomingRun"][]): Schemas["UpcomingRun"][] {
  const seen = new Set<string>();
  return upcoming.filter((run) => !seen.has(run.job_id) && seen.add(run.job_id)).slice(0, LISTED);
}
