// What the form holds, and the body that it means.
import type { Job } from "../../api/types";

export type Kind = "now" | "at" | "cron" | "every" | "calendar";
export const KINDS: Kind[] = ["now", "at", "cron", "every", "calendar"];

/** Texts as they are typed; what is empty is left to the server's default. */
export type Draft = {
  task: string;
  kind: Kind;
  /** The text of each kind, so that a change of mind loses nothing. */
  when: Record<Kind, string>;
  /** Of the schedule: timezone, dst_gap, dst_fold, start_at, end_at, max_runs, jitter. */
  schedule: Record<string, string>;
  payload: Record<string, unknown>;
  /** Text of fields by their name; see FIELDS. */
  fields: Record<string, string>;
};

export type FieldKind = "text" | "number" | "list" | "json" | "flag" | "choice";
export type FieldSpec = { name: string; label: string; kind: FieldKind; hint?: string; choices?: string[] };

/** Every field of a job besides task, schedule and payload. */
export const FIELDS: FieldSpec[] = [
  { name: "name", label: "Name", kind: "text" },
  { name: "key", label: "Key", kind: "text", hint: "Your own stable name for programs; unique among your jobs." },
  { name: "tags", label: "Tags", kind: "list", hint: "Separated by commas." },
  { name: "queue", label: "Queue", kind: "text", hint: "default" },
  { name: "priority", label: "Priority", kind: "choice", choices: ["high", "normal", "low"] },
  { name: "labels", label: "Labels", kind: "list", hint: "Runs only on workers that have all of them." },
  { name: "max_retries", label: "Retries after failures", kind: "number" },
  { name: "timeout", label: "Time limit of an attempt", kind: "text", hint: "Like 30s, 5m, 1h." },
  { name: "start_within", label: "Start within", kind: "text", hint: "A run that does not start in this time expires." },
  { name: "overlap", label: "While the previous run is active", kind: "choice", choices: ["queue", "skip", "allow", "replace"] },
  { name: "catch_up", label: "Late occurrences that still run", kind: "choice", choices: ["last", "skip", "all"] },
  { name: "catch_up_window", label: "How old they may be", kind: "text" },
  { name: "on_lost", label: "When its worker is lost", kind: "choice", choices: ["rerun", "dead"] },
  { name: "on_left_behind", label: "While its function does not stop", kind: "choice", choices: ["hold", "release"], hint: "Whether its group and its concurrency key wait." },
  { name: "group", label: "Group", kind: "text", hint: "Jobs of one group run one after another." },
  { name: "preemptible", label: "May be stopped for a high-priority run", kind: "flag" },
  { name: "retry", label: "Backoff", kind: "json", hint: '{"backoff": "2s", "factor": 2}' },
  { name: "concurrency", label: "Concurrency", kind: "json", hint: '{"key": "bank", "limit": 2}' },
  { name: "rate", label: "Rate", kind: "json", hint: '{"limit": 10, "per": "1m"}' },
  { name: "resources", label: "Resources", kind: "json", hint: '{"cpu": 1, "memory_mb": 512}' },
  { name: "notify", label: "Notify", kind: "json", hint: '[{"on": ["failed"], "email": "a@example.org"}]' },
];

export const SCHEDULE_FIELDS = ["timezone", "dst_gap", "dst_fold", "start_at", "end_at", "max_runs", "jitter"];
export const EMPTY_WHEN: Record<Kind, string> = { now: "", at: "", cron: "0 9 * * 1-5", every: "5m", calendar: '{"hour": 9, "days_of_week": "mon-fri"}' };

export function emptyDraft(timezone: string): Draft {
  return { task: "", kind: "cron", when: { ...EMPTY_WHEN }, schedule: { timezone }, payload: {}, fields: {} };
}

/** The form of a job as it is; `isCopy` leaves its key out, which only one job has. */
export function draftOf(job: Job, isCopy = false): Draft {
  const schedule = job.schedule as Record<string, unknown>;
  const kind = KINDS.find((one) => schedule[one] !== undefined && !(one === "cron" && schedule.calendar)) ?? "now";
  const written = schedule[kind];
  const fields = FIELDS.map(({ name, kind: type }) => [name, textOf((job as Record<string, unknown>)[name], type)]);
  return {
    task: job.task,
    kind,
    when: { ...EMPTY_WHEN, [kind]: typeof written === "object" ? JSON.stringify(written) : String(written ?? "") },
    schedule: Object.fromEntries(SCHEDULE_FIELDS.filter((name) => schedule[name] != null).map((name) => [name, String(schedule[name])])),
    payload: (job.payload as Record<string, unknown> | null) ?? {},
    fields: { ...Object.fromEntries(fields), ...(isCopy ? { key: "" } : {}) },
  };
}

function textOf(value: unknown, kind: FieldKind): string {
  if (value === null || value === undefined) return "";
  if (kind === "list") return (value as string[]).join(", ");
  return kind === "json" ? JSON.stringify(value) : String(value);
}

/** A text that is no JSON is passed on, so that the server says what it expects. */
function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function valueOf(text: string, kind: FieldKind): unknown {
  if (kind === "list") return text.split(",").map((one) => one.trim()).filter(Boolean);
  if (kind === "flag") return text === "true";
  if (kind === "number") return text.trim() && Number.isFinite(Number(text)) ? Number(text) : text;
  return kind === "json" ? json(text) : text;
}

/** Null for a job that runs now: it needs no schedule. */
export function scheduleOf(draft: Draft): Record<string, unknown> | null {
  if (draft.kind === "now") return null;
  const isClock = draft.kind === "cron" || draft.kind === "calendar" || draft.kind === "at";
  const names = SCHEDULE_FIELDS.filter((name) => draft.schedule[name] && (isClock || !["timezone", "dst_gap", "dst_fold"].includes(name)) && (draft.kind !== "at" || ["timezone", "jitter"].includes(name)));
  const rest = names.map((name) => [name, name === "max_runs" ? valueOf(draft.schedule[name]!, "number") : draft.schedule[name]]);
  return { [draft.kind]: draft.kind === "calendar" ? json(draft.when.calendar) : draft.when[draft.kind], ...Object.fromEntries(rest) };
}

/** The body of POST /v1/jobs: only what was filled in. */
export function bodyOf(draft: Draft): Record<string, unknown> {
  const schedule = scheduleOf(draft);
  const filled = FIELDS.filter(({ name }) => draft.fields[name]);
  return {
    task: draft.task,
    ...Object.fromEntries(filled.map(({ name, kind }) => [name, valueOf(draft.fields[name]!, kind)])),
    ...(schedule ? { schedule } : {}),
    ...(Object.keys(draft.payload).length ? { payload: draft.payload } : {}),
  };
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The body of PATCH: only what differs from `before`. What was emptied is null, or an empty list. */
export function changesOf(before: Draft, draft: Draft): Record<string, unknown> {
  const changed = FIELDS.filter(({ name }) => (before.fields[name] ?? "") !== (draft.fields[name] ?? ""));
  const fields = changed.map(({ name, kind }) => [name, draft.fields[name] || kind === "list" || kind === "flag" ? valueOf(draft.fields[name] ?? "", kind) : null]);
  return {
    ...(before.task === draft.task ? {} : { task: draft.task }),
    ...Object.fromEntries(fields),
    ...(same(scheduleOf(before), scheduleOf(draft)) ? {} : { schedule: scheduleOf(draft) ?? "now" }),
    ...(same(before.payload, draft.payload) ? {} : { payload: draft.payload }),
  };
}

/** `mine` on top of `theirs`: what was changed against `before` stays, all else is theirs. */
export function rebased(before: Draft, mine: Draft, theirs: Draft): Draft {
  const names = Object.keys(changesOf(before, mine));
  const fields = Object.fromEntries(FIELDS.map(({ name }) => [name, (names.includes(name) ? mine : theirs).fields[name] ?? ""]));
  const schedule = names.includes("schedule") ? mine : theirs;
  return { task: (names.includes("task") ? mine : theirs).task, kind: schedule.kind, when: schedule.when, schedule: schedule.schedule, payload: (names.includes("payload") ? mine : theirs).payload, fields };
}
