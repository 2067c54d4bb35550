import type { Schemas } from "../../api/types";
import { Lane, placed, Timeline } from "../../components/Timeline";
import { When } from "../../components/When";
import { clock, exact, now, zoneName } from "../../time";

type Preview = Schemas["EditPreview"];

/** Old and new occurrences on one axis, what is withdrawn, and when the change begins to matter. */
export function ScheduleDiff({ preview, isPaused }: { preview: Preview; isPaused: boolean }) {
  const before = timesOf(preview.before);
  const after = timesOf(preview.after);
  const isMoved = before.join() !== after.join();
  const from = now();
  const to = spanOf(before, after, from);
  const zone = preview.job.schedule.timezone;
  return (
    <section class="told">
      <h2>{isMoved ? preview.after.description || "It runs at other times" : "It runs at the same times"}</h2>
      {isMoved && preview.before.description && <p class="faint">Was: {preview.before.description}</p>}
      {(before.length > 0 || after.length > 0) && (
        <Timeline label="Occurrences before and after the change" from={from} to={to} zone={zone}>
          <Lane name="before">{before.map((at) => <Mark key={at} at={at} from={from} to={to} kind={after.includes(at) ? "stays" : "goes"} />)}</Lane>
          <Lane name="after">{after.map((at) => <Mark key={at} at={at} from={from} to={to} kind={before.includes(at) ? "stays" : "comes"} />)}</Lane>
        </Timeline>
      )}
      {isMoved && <p class="key-of-marks is-near"><span><i class="event mark is-stays" /> stays</span><span><i class="event mark is-goes" /> goes away</span><span><i class="event mark is-comes" /> is new</span></p>}
      <Bites preview={preview} isPaused={isPaused} />
      <Withdrawn preview={preview} />
      <Notes preview={preview} />
    </section>
  );
}

function timesOf(preview: Schemas["Preview"]): number[] {
  return preview.occurrences.map((one) => Date.parse(one.at));
}

/** Up to where both lists are known: beyond the end of the shorter one nothing can be compared. */
function spanOf(before: number[], after: number[], from: number): number {
  const ends = [before, after].filter((times) => times.length).map((times) => times[times.length - 1]!);
  const end = ends.length ? Math.min(...ends) : from;
  return from + Math.max((end - from) * 1.04, 60_000);
}

const WORDS = { stays: "stays", goes: "goes away", comes: "is new" };

function Mark({ at, from, to, kind }: { at: number; from: number; to: number; kind: keyof typeof WORDS }) {
  return at > to ? null : <span class={`event mark is-${kind}`} style={placed(at, from, to)} title={`${exact(at, zoneName())}: ${WORDS[kind]}`} />;
}

function Bites({ preview, isPaused }: { preview: Preview; isPaused: boolean }) {
  if (!preview.takes_effect_at) return <p>{isPaused ? "The job is paused: it takes effect when it is resumed." : "No run starts with this definition."}</p>;
  return <p>It takes effect <b><When at={preview.takes_effect_at} zone={preview.job.schedule.timezone} focusable /></b>, with the run of {clock(Date.parse(preview.takes_effect_at), zoneName(preview.job.schedule.timezone), now())}.</p>;
}

function Withdrawn({ preview }: { preview: Preview }) {
  const { withdrawn, withdrawn_count: count } = preview;
  if (count === 0) return <p class="faint">No run that is planned already is withdrawn.</p>;
  if (count === null) return <p class="warn-text">More than 1,000 runs wait; all of them follow the change.</p>;
  const times = withdrawn.slice(0, 5).map((one) => (one.scheduled_for ? clock(Date.parse(one.scheduled_for), zoneName(), now()) : `…${one.run_id.slice(-8)}`));
  return <p class="warn-text"><b>{count === 1 ? "One planned run is withdrawn" : `${count} planned runs are withdrawn`}:</b> {times.join(", ")}{count > times.length && ` and ${count - times.length} more`}.</p>;
}

function Notes({ preview }: { preview: Preview }) {
  const notes = [...preview.after.occurrences.flatMap((one) => one.note ?? []), ...preview.after.skipped];
  return notes.length ? <ul class="notes">{notes.map((note) => <li key={note}>{note}</li>)}</ul> : null;
}
