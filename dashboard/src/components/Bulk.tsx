import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, type Result } from "../api/client";
import type { Bulk, BulkOf, Schemas } from "../api/types";
import { command, quoted } from "../commands";
import { session } from "../session";
import { toast, words } from "../toasts";
import { Button } from "./Button";
import { ask } from "./Confirm";
import { Progress } from "./Progress";

/** Bulks that are not finished. */
export const unfinished = signal<Bulk[]>([]);
const LOOK_AGAIN = 1_000; // ms
const RUN_AGAIN = "Run again";

type Asked = {
  of: BulkOf;
  /** "Pause", "Run again": the verb on the button. */
  verb: string;
  /** Like "jobs pause", for the command line. */
  cli: string;
  /** What one is called, and many: ["job", "jobs"]. */
  nouns: [string, string];
  isDangerous?: boolean;
  /** What to call an object, if the page knows: the server names those of a filter only. */
  nameOf?: (id: string) => string | undefined;
  /** Called when the bulk was started. */
  after?: () => void;
};

/** Asks the server how many it would be, then the user, then starts it. Its progress is shown on every page. */
export async function askBulk({ of, verb, cli, nouns, isDangerous, nameOf, after }: Asked): Promise<void> {
  const dry = await call("post", "/v1/bulk", { body: { ...of, dry_run: true } });
  if (!dry.ok) return toast(words(dry.error), true);
  const { count, at_least, samples } = dry.value as Schemas["BulkPreview"];
  if (!count) return toast(`No ${nouns[1]} match: there is nothing to ${verb.toLowerCase()}.`);
  const many = `${at_least ? "at least " : ""}${count.toLocaleString("en")} ${count === 1 ? nouns[0] : nouns[1]}`;
  ask({
    title: `${doing(verb, many)}?`,
    hits: <ul class="samples">{samples.map((one) => <li key={one.id}>{one.name ?? nameOf?.(one.id) ?? one.id}</li>)}{count > samples.length && <li>… and {at_least ? "more" : count - samples.length + " more"}</li>}</ul>,
    command: command(cli, of.ids ?? ((of.filter ?? {}) as Record<string, string>)) + (of.payload_patch ? ` --patch ${quoted(JSON.stringify(of.payload_patch))}` : ""),
    label: doing(verb, many),
    isDangerous,
    act: () => startBulk(of),
    done: `${verb}: started for ${many}.`,
    after,
  });
}

/** "Pause 2 jobs", "Run 2 dead letters again". */
function doing(verb: string, many: string): string {
  return verb === RUN_AGAIN ? `Run ${many} again` : `${verb} ${many}`;
}

/** What people call the action of a bulk. */
export function shownAction({ action }: Bulk): string {
  return action === "retry" || action === "requeue" ? RUN_AGAIN.toLowerCase() : action;
}

/** Starts it; its progress is shown on every page. */
export async function startBulk(of: BulkOf): Promise<Result<unknown>> {
  const begun = await call("post", "/v1/bulk", { body: of });
  if (begun.ok) unfinished.value = [...unfinished.value, begun.value as Bulk];
  return begun;
}

/** Bulks that are not finished, also those of before a reload; once, in the shell. */
export function Bulks() {
  useEffect(() => {
    void call("get", "/v1/bulk", { query: { limit: 10 } }).then((answer) => {
      if (answer.ok) unfinished.value = answer.value.bulks.filter((one) => one.state === "running");
    });
  }, [session.value?.user_id]);
  const count = unfinished.value.length;
  useEffect(() => {
    if (!count) return;
    const timer = setInterval(() => void Promise.all(unfinished.value.map(lookAgain)), LOOK_AGAIN);
    return () => clearInterval(timer);
  }, [count]);
  if (!count) return null;
  return <div class="bulks" role="status">{unfinished.value.map((bulk) => <Running key={bulk.bulk_id} bulk={bulk} />)}</div>;
}

function Running({ bulk }: { bulk: Bulk }) {
  const stop = async (): Promise<void> => void (await call("delete", "/v1/bulk/{id}", { path: { id: bulk.bulk_id } }));
  return (
    <p class="bulk">
      <span>{shownAction(bulk)} {bulk.of.replace("_", " ")}</span>
      <Progress label={`Progress of ${shownAction(bulk)}`} done={bulk.done + bulk.refused} total={bulk.total} />
      <Button onClick={stop}>Stop</Button>
    </p>
  );
}

async function lookAgain(bulk: Bulk): Promise<void> {
  const answer = await call("get", "/v1/bulk/{id}", { path: { id: bulk.bulk_id } });
  if (!answer.ok) return;
  const now = answer.value;
  if (now.state === "running") unfinished.value = unfinished.value.map((one) => (one.bulk_id === now.bulk_id ? now : one));
  else {
    unfinished.value = unfinished.value.filter((one) => one.bulk_id !== now.bulk_id);
    const refused = now.refused ? `, ${now.refused} refused: ${now.reasons[0]?.reason ?? ""}` : "";
    toast(`${shownAction(now)}: ${now.state}, ${now.done} done${refused}${now.why ? `. ${now.why}` : ""}`, now.state === "failed" || now.refused > 0);
  }
}
