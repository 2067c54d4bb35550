import { Field } from "../../components/Field";
import { typed } from "./Form";
import { KINDS, type Draft, type Kind } from "./draft";

const LABELS: Record<Kind, string> = { now: "Now", at: "Once, at", cron: "Cron", every: "Every", calendar: "Calendar" };
const HINTS: Record<Kind, string> = {
  now: "",
  at: "Like 2027-01-31 09:00 (in the time zone), 2027-01-31T09:00:00Z, or in 10m.",
  cron: "minute hour day month weekday; six fields begin with seconds.",
  every: "Like 30s, 5m, 1.5h: counted in real time.",
  calendar: "An object like {\"hour\": 9, \"days_of_week\": \"mon-fri\"}.",
};
const zones: string[] = typeof Intl.supportedValuesOf === "function" ? ["UTC", ...Intl.supportedValuesOf("timeZone")] : ["UTC"];

type Props = { draft: Draft; onDraft: (draft: Draft) => void; error?: string };

export function ScheduleForm({ draft, onDraft, error }: Props) {
  const { kind } = draft;
  const set = (name: string) => (event: Event): void => onDraft({ ...draft, schedule: { ...draft.schedule, [name]: typed(event) } });
  const text = (name: string, label: string, hint?: string) => <Field label={label} hint={hint}><input type="text" spellcheck={false} autocomplete="off" value={draft.schedule[name] ?? ""} onInput={set(name)} /></Field>;
  return (
    <fieldset class="schedule">
      <legend>Schedule</legend>
      <div class="chips" role="group" aria-label="Kind of schedule">
        {KINDS.map((one) => <button key={one} type="button" class="chip" aria-pressed={one === kind} onClick={() => onDraft({ ...draft, kind: one })}>{LABELS[one]}</button>)}
      </div>
      {kind !== "now" && (
        <div class="field-row">
          <Field label={LABELS[kind]} hint={HINTS[kind]} error={error}><input type="text" class="code-input" spellcheck={false} autocomplete="off" value={draft.when[kind]} onInput={(event: Event) => onDraft({ ...draft, when: { ...draft.when, [kind]: typed(event) } })} /></Field>
          {kind !== "every" && <Field label="Time zone"><input type="text" list="zones" spellcheck={false} autocomplete="off" value={draft.schedule.timezone ?? ""} onInput={set("timezone")} /></Field>}
          <datalist id="zones">{zones.map((one) => <option key={one} value={one} />)}</datalist>
        </div>
      )}
      {kind === "now" && error && <p class="refusal">{error}</p>}
      {kind !== "now" && (
        <details>
          <summary>Daylight saving, window, jitter</summary>
          <div class="field-grid">
            {(kind === "cron" || kind === "calendar") && (
              <>
                <Field label="A time that does not exist"><select value={draft.schedule.dst_gap ?? "shift"} onChange={set("dst_gap")}><option value="shift">runs right after the gap</option><option value="skip">is skipped</option></select></Field>
                <Field label="A time that comes twice"><select value={draft.schedule.dst_fold ?? "first"} onChange={set("dst_fold")}><option value="first">runs the first time</option><option value="both">runs both times</option></select></Field>
              </>
            )}
            {kind !== "at" && <>{text("start_at", "Not before", "2027-01-31T09:00:00Z, or in 10m")}{text("end_at", "Not after")}{text("max_runs", "At most this many runs")}</>}
            {text("jitter", "Jitter", "Each run starts up to this much later: 5m.")}
          </div>
        </details>
      )}
    </fieldset>
  );
}
