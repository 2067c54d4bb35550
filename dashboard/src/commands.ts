// The command line for what a button does, quoted for a shell.
import { payloadFields, type PayloadField } from "./pages/new/schema";

export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

const FLAGS: Record<string, string> = {
  status: "--status", task: "--task", name: "--name", name_prefix: "--prefix", tag: "--tag", queue: "--queue",
  start_time: "--from", end_time: "--until", user_id: "--user", job_id: "--job", fingerprint: "--fingerprint",
};

/** `command("jobs pause", ["nightly report"])`, `command("jobs pause", { tag: "nightly" })` for all that match. */
export function command(verb: string, what: string[] | Record<string, string | undefined>): string {
  if (Array.isArray(what)) return ["oncue", verb, ...what.map(quoted)].join(" ");
  const flags = Object.entries(what).flatMap(([name, value]) => (value && FLAGS[name] ? [FLAGS[name], quoted(value)] : []));
  return ["oncue", verb, "--all", ...flags].join(" ");
}

export type Example = { task: string; payload: Record<string, unknown> };

/** A task to try, with values for what it needs: one that needs nothing, and has a live worker, before others. Null: there is none. */
export function exampleOf(tasks: { name: string; schema: unknown; workers: number }[]): Example | null {
  const needed = (schema: unknown): PayloadField[] => (payloadFields(schema) ?? []).filter((field) => field.isRequired);
  const rank = (task: { schema: unknown; workers: number }): number => needed(task.schema).length + (task.workers ? 0 : 100);
  const [best] = [...tasks].sort((a, b) => rank(a) - rank(b));
  return best ? { task: best.name, payload: Object.fromEntries(needed(best.schema).map((field) => [field.name, SOME[field.kind] ?? field.choices[0]])) } : null;
}

const SOME: Partial<Record<PayloadField["kind"], unknown>> = { text: "text", number: 1, flag: true, json: null };

/** `--task charge --payload '{"order":1}'` */
export function taskOptions({ task, payload }: Example): string {
  return ["--task", quoted(task), ...(Object.keys(payload).length ? ["--payload", quoted(JSON.stringify(payload))] : [])].join(" ");
}
