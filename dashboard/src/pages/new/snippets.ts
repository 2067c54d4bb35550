// The same job as curl, Python, a command line and YAML, to copy.
import { quoted } from "../../commands";

export type Snippets = Record<"CLI" | "curl" | "Python" | "YAML", string>;
type Body = Record<string, unknown>;

const OPTIONS: Record<string, string> = { task: "--task", name: "--name", key: "--key", queue: "--queue", priority: "--priority", max_retries: "--max-retries", timeout: "--timeout", overlap: "--overlap" };

export function createSnippets(filled: Body, origin: string): Snippets {
  const body = filled.task ? filled : { ...filled, task: "CHOOSE-A-TASK" };
  return {
    CLI: commandLine("oncue jobs create", body),
    curl: curl("POST", `${origin}/v1/jobs`, body),
    Python: python("client.jobs.create(", "", body),
    YAML: yaml({ set: "my-jobs", jobs: [{ ...(body.key ? {} : { key: "CHOOSE-A-KEY" }), ...body }] }),
  };
}

/** `job` is the whole definition with the change, for YAML, which declares jobs as they should be. */
export function editSnippets(id: string, version: number | null, body: Body, job: Body, origin: string): Snippets {
  const match = version === null ? "" : ` --if-match ${version}`;
  return {
    CLI: commandLine(`oncue jobs edit ${quoted(id)}${match}`, body),
    curl: curl("PATCH", `${origin}/v1/jobs/${id}`, body, version === null ? [] : [`If-Match: "${version}"`]),
    Python: python("client.jobs.edit(", `    ${literal(id)},\n${version === null ? "" : `    if_match=${version},\n`}`, body),
    YAML: yaml({ set: "my-jobs", jobs: [{ ...(job.key ? {} : { key: "CHOOSE-A-KEY" }), ...job }] }),
  };
}

function commandLine(start: string, body: Body): string {
  const parts = Object.entries(body).flatMap(([name, value]) => {
    if (name === "payload") return [`--payload ${quoted(JSON.stringify(value))}`];
    if (name === "schedule") return scheduleOptions(value);
    if (name === "tags" && Array.isArray(value) && value.length) return value.map((one) => `--tag ${quoted(String(one))}`);
    if (OPTIONS[name] && value !== null) return [`${OPTIONS[name]} ${quoted(String(value))}`];
    return [`--field ${quoted(`${name}=${JSON.stringify(value)}`)}`];
  });
  return [start, ...parts].join(" \\\n  ");
}

/** The short way to write a schedule, if it has no more than a time and a time zone. */
function scheduleOptions(value: unknown): string[] {
  if (typeof value === "string") return [`--schedule ${quoted(value)}`];
  const { timezone, dst_gap, dst_fold, ...rest } = value as Record<string, unknown>;
  const [kind, when] = Object.entries(rest)[0] ?? [];
  const isPlain = Object.keys(rest).length === 1 && (dst_gap ?? "shift") === "shift" && (dst_fold ?? "first") === "first" && typeof when === "string";
  if (!isPlain || !["cron", "every", "at"].includes(kind!)) return [`--schedule ${quoted(JSON.stringify(value))}`];
  return [`--schedule ${quoted(kind === "every" ? `every ${when}` : when)}`, ...(timezone ? [`--timezone ${quoted(String(timezone))}`] : [])];
}

function curl(method: string, url: string, body: Body, headers: string[] = []): string {
  const lines = [`curl -X ${method} ${quoted(url)}`, '-H "Authorization: Bearer $ONCUE_API_KEY"', "-H 'Content-Type: application/json'", ...headers.map((one) => `-H ${quoted(one)}`), `-d ${quoted(JSON.stringify(body))}`];
  return lines.join(" \\\n  ");
}

function python(start: string, first: string, body: Body): string {
  const lines = Object.entries(body).map(([name, value]) => `        ${name}=${literal(value)},`);
  const before = first.replaceAll(/^ {4}/gm, "        ");
  return `from oncue.client import Client\n\nwith Client() as client:\n    ${start}\n${before}${lines.join("\n")}\n    )\n`;
}

/** A JSON value as Python writes it. */
export function literal(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value as Body).map(([name, one]) => `${JSON.stringify(name)}: ${literal(one)}`).join(", ")}}`;
  return JSON.stringify(value);
}

/** Blocks for objects and lists of objects; all else is JSON, which YAML contains. */
export function yaml(value: Body, indent = ""): string {
  return Object.entries(value).map(([name, one]) => {
    if (Array.isArray(one) && one.some((item) => item && typeof item === "object")) {
      return `${indent}${name}:\n${one.map((item) => `${indent}  - ${yaml(item as Body, `${indent}    `).trimStart()}`).join("")}`;
    }
    if (one && typeof one === "object" && !Array.isArray(one) && Object.keys(one).length) return `${indent}${name}:\n${yaml(one as Body, `${indent}  `)}`;
    return `${indent}${/^[A-Za-z_][\w-]*$/.test(name) && !/^(y|n|yes|no|on|off|true|false|null)$/i.test(name) ? name : JSON.stringify(name)}: ${JSON.stringify(one)}\n`;
  }).join("");
}
