// The command line for what a button does, quoted for a shell.

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
