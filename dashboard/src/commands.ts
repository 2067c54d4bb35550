// The command line for what a button does, quoted for a shell.
import { sampleOf } from "./pages/new/schema";

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

const BUILT_IN = new Set(["http", "command", "notify"]);
const A_REQUEST: Example = { task: "http", payload: { url: "https://example.com" } };

/** A task to try, with values for what it needs: one of the user's that needs little, and has a live worker, before others; then `http`. Null: there is none. */
export function exampleOf(tasks: { name: string; schema: unknown; workers: number }[]): Example | null {
  const found = tasks.filter((task) => !BUILT_IN.has(task.name)).map((task) => ({ ...task, payload: sampleOf(task.schema) }));
  const rank = (task: { payload: object; workers: number }): number => Object.keys(task.payload).length + (task.workers ? 0 : 100);
  const [best] = found.sort((a, b) => rank(a) - rank(b));
  if (best) return { task: best.name, payload: best.payload };
  return tasks.some((task) => task.name === A_REQUEST.task) ? A_REQUEST : null;
}

/** `--task charge --payload '{"order":1}'` */
export function taskOptions({ task, payload }: Example): string {
  return ["--task", quoted(task), ...(Object.keys(payload).length ? ["--payload", quoted(JSON.stringify(payload))] : [])].join(" ");
}
