// A draft as text for the address: after the #, which browsers keep to themselves, so that no log of a server has it.
import { EMPTY_WHEN, FIELDS, KINDS, SCHEDULE_FIELDS, type Draft } from "./draft";

export const LONGEST = 6_000; // characters; what is longer is not kept in the address
const SECRET = /pass(word|wd|phrase)?$|secret|token|api[-_]?key|authorization|cookie|credential|private[-_]?key/i;

/** `task=report&name=daily&cron=0 9 * * *&timezone=Europe/Berlin&payload={…}`; null: it is too long. */
export function draftText(draft: Draft): string | null {
  const all = new URLSearchParams();
  const set = (name: string, text: string | undefined): void => void (text && all.set(name, text));
  set("task", draft.task);
  for (const { name } of FIELDS) set(name, draft.fields[name]);
  all.set(draft.kind, draft.when[draft.kind]);
  for (const name of SCHEDULE_FIELDS) set(name, draft.schedule[name]);
  const payload = withoutSecrets(draft.payload) as Record<string, unknown>;
  if (Object.keys(payload).length) all.set("payload", JSON.stringify(payload));
  const text = all.toString();
  return text.length > LONGEST ? null : text;
}

/** Null: there is no draft in it. */
export function readDraft(text: string): Draft | null {
  const all = new URLSearchParams(text.replace(/^#/, ""));
  const kind = KINDS.find((one) => all.has(one));
  if (!kind) return null;
  const given = (names: string[]): Record<string, string> => Object.fromEntries(names.filter((name) => all.get(name)).map((name) => [name, all.get(name)!]));
  return {
    task: all.get("task") ?? "",
    kind,
    when: { ...EMPTY_WHEN, [kind]: all.get(kind)! },
    schedule: given(SCHEDULE_FIELDS),
    payload: objectOf(all.get("payload")),
    fields: given(FIELDS.map(({ name }) => name)),
  };
}

function objectOf(text: string | null): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text ?? "{}");
    return value && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Addresses are shown, sent and kept: a value whose name says that it is secret is not in one. A reference is: {"secret": "name"}. */
export function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (!value || typeof value !== "object") return value;
  if (isReference(value)) return value;
  const open = Object.entries(value).filter(([name, one]) => !SECRET.test(name) || isReference(one));
  return Object.fromEntries(open.map(([name, one]) => [name, withoutSecrets(one)]));
}

function isReference(value: unknown): boolean {
  return !!value && typeof value === "object" && Object.keys(value).join() === "secret" && typeof (value as { secret: unknown }).secret === "string";
}
