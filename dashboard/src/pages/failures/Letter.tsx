import { useState } from "preact/hooks";
import { call, urlOf, type Result } from "../../api/client";
import { useGet } from "../../api/use";
import type { WholeRun } from "../../api/types";
import { command, quoted } from "../../commands";
import { Button } from "../../components/Button";
import { Code, Json } from "../../components/Code";
import { ask } from "../../components/Confirm";
import { Copy } from "../../components/Copy";
import { Dialog } from "../../components/Dialog";
import { Diff } from "../../components/Diff";
import { Field } from "../../components/Field";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { runName, shortId } from "../../names";
import { href } from "../../router";
import { can } from "../../session";
import { toast, words } from "../../toasts";
import { parseObject } from "./patching";

type Props = { id: string; onClose: () => void; onDone: () => void };

/** One dead letter: what went wrong, its payload to change, and what to do with it. */
export function Letter({ id, onClose, onDone }: Props) {
  const run = useGet("/v1/runs/{id}", { path: { id } });
  const name = run.data ? runName(run.data) : `Run ${shortId(id)}`;
  return (
    <Dialog title={name} onClose={onClose} wide>
      {run.error && <Trouble error={run.error} onAgain={run.reload} />}
      {run.data && <Story run={run.data} />}
      {run.data && (can("letters") ? <Edit run={run.data} name={name} onDone={onDone} /> : <Payload run={run.data} />)}
    </Dialog>
  );
}

function Story({ run }: { run: WholeRun }) {
  const traceback = run.attempts.findLast((attempt) => attempt.traceback)?.traceback;
  return (
    <>
      <p class="facts">
        <span>died <When at={run.end_time} focusable /> after {run.attempt_number} {run.attempt_number === 1 ? "attempt" : "attempts"}{run.executor_name && <> on {run.executor_name}</>}</span>
        <a href={href(`/runs/${run.run_id}`)}>Run</a>
        <a href={href(`/jobs/${run.job_id}`)}>Job</a>
      </p>
      <p class="why bad-edge"><b>{run.error_type}</b> {run.error_message}</p>
      {traceback && <details><summary>Traceback of the last attempt</summary><Code text={traceback} label="Traceback" /></details>}
    </>
  );
}

function Payload({ run }: { run: WholeRun }) {
  return run.large.payload ? <LargePayload run={run} /> : <Json value={run.payload} label="Payload" />;
}

function LargePayload({ run }: { run: WholeRun }) {
  return <p>The payload has {run.large.payload!.toLocaleString("en")} bytes. <a href={urlOf("/v1/runs/{id}/payload", { path: { id: run.run_id } })} download>Download it</a></p>;
}

function Edit({ run, name, onDone }: { run: WholeRun; name: string; onDone: () => void }) {
  const id = run.run_id;
  const before = JSON.stringify(run.payload ?? {}, null, 2);
  const [text, setText] = useState(before);
  const [refusal, setRefusal] = useState("");
  const parsed = parseObject(text);
  const isChanged = text !== before;
  const fromApi = isChanged && parsed.ok ? { payload: parsed.value as Record<string, never> } : {};
  const line = command("dead requeue", [id]) + (isChanged && parsed.ok ? ` --payload ${quoted(JSON.stringify(parsed.value))}` : "");
  const requeue = async (): Promise<void> => {
    const answer = await call("post", "/v1/dead-letters/requeue", { body: { run_ids: [id], ...fromApi } as never });
    const why = whyNot(answer);
    setRefusal(why ?? "");
    if (why === null) (toast(`${name} runs again${isChanged ? ", with the changed payload" : ""}.`), onDone());
  };
  return (
    <>
      {run.large.payload
        ? <LargePayload run={run} />
        : <Field label="Payload" hint="What you change here is for the new run; the job stays as it is." error={!parsed.ok ? parsed.why : refusal || undefined}>
            <textarea class="payload" rows={Math.min(16, Math.max(4, before.split("\n").length + 1))} spellcheck={false} value={text} onInput={(event) => (setText(event.currentTarget.value), setRefusal(""))} />
          </Field>}
      {run.large.payload && refusal && <p class="refusal" role="alert">{refusal}</p>}
      {isChanged && parsed.ok && <Diff before={run.payload ?? {}} after={parsed.value} label="What changes in the payload" />}
      <p class="command"><code>{line}</code><Copy text={line} what="the command" /></p>
      <footer>
        {isChanged && <Button kind="quiet" onClick={() => setText(before)}>As it was</Button>}
        <Button changes="letters" kind="danger" onClick={() => askToDiscard(run, onDone)}>Discard</Button>
        <Button changes="letters" kind="primary" disabled={!parsed.ok} onClick={requeue}>{isChanged ? "Run again with this payload" : "Run again"}</Button>
      </footer>
    </>
  );
}

/** Asks first: a discarded letter cannot be run again. */
export function askToDiscard(run: WholeRun, after: () => void): void {
  const name = runName(run);
  ask({
    title: `Discard ${name}?`,
    hits: <p>It cannot be run again, and leaves the list of dead letters. The run stays in the history. This cannot be undone.</p>,
    command: command("dead discard", [run.run_id]),
    label: "Discard it",
    isDangerous: true,
    act: async () => {
      const answer = await call("post", "/v1/dead-letters/discard", { body: { run_ids: [run.run_id] } as never });
      return !answer.ok || answer.value.count ? answer : { ok: false, error: { status: 409, title: "Closed", detail: CLOSED, errors: [] } };
    },
    done: `${name} is discarded.`,
    after,
  });
}

const CLOSED = "It is no open dead letter any more: somebody ran it again or discarded it.";

type Requeued = { count: number; refused: { errors: { path?: string; message: string }[] }[] };

/** Null: it runs again. */
function whyNot(answer: Result<Requeued>): string | null {
  if (!answer.ok) return words(answer.error);
  const refused = answer.value.refused[0];
  if (refused) return refused.errors.map((one) => (one.path ? `${one.path}: ${one.message}` : one.message)).join("; ");
  return answer.value.count ? null : CLOSED;
}
