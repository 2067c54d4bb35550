import { call } from "../api/client";
import type { Job } from "../api/types";
import { useAnswer } from "../api/useAnswer";
import { setQuery } from "../router";
import { now } from "../time";
import { Button } from "./Button";
import { changeWords, clockChanges } from "./clockchanges";
import { When } from "./When";

const DAY = 86_400_000;
const YEAR = 366 * DAY;

type Props = {
  schedule: Job["schedule"];
  zone: string;
  /** In a preview: only a change after this instant, and only if it moves, drops or repeats a run. */
  beyond?: number;
};

/** What the next clock change does to this schedule, before it happens. */
export function NextChange({ schedule, zone, beyond }: Props) {
  const isPreview = beyond !== undefined;
  const day = Math.floor(now() / DAY) * DAY;
  const [change] = schedule.every ? [] : clockChanges(zone, day, day + YEAR);
  const key = change && !(isPreview && change.at <= beyond) ? JSON.stringify([schedule, change.at]) : null;
  const around = useAnswer(key, (signal) => call("post", "/v1/schedules/preview", { body: { schedule: schedule as never, count: 100, after: new Date(change!.at - DAY).toISOString() }, signal }));
  const touched = (change && around.data?.occurrences.filter((one) => one.note && Math.abs(Date.parse(one.at) - change.at) < DAY)) || [];
  const skipped = around.data?.skipped ?? [];
  if (isPreview && (!key || (!touched.length && !skipped.length))) return null;
  if (schedule.every) return <section class="facts-box"><h2>Clock changes</h2><p>An interval counts real time: daylight saving does not change it, and its time on the clock moves.</p></section>;
  if (!change) return <section class="facts-box"><h2>Clock changes</h2><p>The clocks of {zone} do not change in the coming year.</p></section>;
  return (
    <section class="facts-box">
      <h2>Next clock change</h2>
      <p><When at={change.at} zone={zone} focusable />: {changeWords(change)} ({zone}).</p>
      {around.data && (
        <ul class="notes">
          {touched.map((one) => <li key={one.at}><span class="number">{one.local.slice(0, 16).replace("T", " ")}:</span> {one.note}</li>)}
          {skipped.map((note) => <li key={note}>{note}</li>)}
          {!touched.length && !skipped.length && <li>It moves, drops or repeats no run of this schedule.</li>}
        </ul>
      )}
      {!isPreview && <p><Button onClick={() => setQuery({ at: String(change.at), window: "24h" })}>Show it on the timeline</Button></p>}
    </section>
  );
}
