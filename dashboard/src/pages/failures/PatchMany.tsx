import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../../api/client";
import type { BulkOf, DeadLetter, Schemas } from "../../api/types";
import { command, quoted } from "../../commands";
import { Button } from "../../components/Button";
import { Copy } from "../../components/Copy";
import { Dialog } from "../../components/Dialog";
import { Diff } from "../../components/Diff";
import { Field } from "../../components/Field";
import { Progress } from "../../components/Progress";
import { words } from "../../toasts";
import { nameOf, type LetterFilter } from "./Letters";
import { parseObject, patched } from "./patching";

export type Target = { ids: string[] } | { filter: LetterFilter };
type Props = { target: Target; samples: DeadLetter[]; onClose: () => void; onDone: () => void };
type Refused = { run_id: string; why: string };
type State = { done: number; refused: Refused[]; isOver: boolean; trouble?: string };

const KEPT = "oncue.patch"; // the last patch, so that a reload does not lose what was typed

/** Changes a part of many payloads, and requeues them. */
export function PatchMany({ target, samples, onClose, onDone }: Props) {
  const [text, setText] = useState(() => sessionStorage.getItem(KEPT) ?? "{\n  \n}");
  const [state, setState] = useState<State | null>(null);
  const stopped = useRef(false);
  const preview = usePreview(target);
  const parsed = parseObject(text);
  const isEmpty = parsed.ok && !Object.keys(parsed.value).length;
  const sample = samples[0];
  const many = preview ? `${preview.at_least ? "at least " : ""}${preview.count.toLocaleString("en")} ${preview.count === 1 ? "dead letter" : "dead letters"}` : "…";
  const line = command("dead requeue", "ids" in target ? target.ids : (target.filter as Record<string, string>)) + ` --patch ${parsed.ok ? quoted(JSON.stringify(parsed.value)) : "…"}`;
  useEffect(() => () => void (stopped.current = true), []);
  const start = async (): Promise<void> => {
    if (!parsed.ok) return;
    sessionStorage.setItem(KEPT, text);
    stopped.current = false;
    await requeueAll(target, parsed.value, setState, stopped);
    onDone();
  };
  const isRunning = state !== null && !state.isOver;
  return (
    <Dialog title={`Change and requeue ${many}`} onClose={onClose} wide>
      <Field label="Change" hint="Names that are left out stay as they are, null removes one, objects are merged (JSON Merge Patch)." error={parsed.ok ? undefined : parsed.why}>
        <textarea class="payload" rows={5} spellcheck={false} value={text} disabled={isRunning} onInput={(event) => setText(event.currentTarget.value)} />
      </Field>
      {sample && parsed.ok && !isEmpty && <><h3>What it does to {nameOf(sample)}</h3><Diff before={sample.payload ?? {}} after={patched(sample.payload, parsed.value)} label="What changes in the payload of the first one" /></>}
      <p class="command"><code>{line}</code><Copy text={line} what="the command" /></p>
      {state && <Outcome state={state} total={preview?.at_least ? null : preview?.count ?? null} />}
      <footer>
        {isRunning ? <Button onClick={() => void (stopped.current = true)}>Stop</Button> : <Button onClick={onClose}>{state ? "Close" : "Leave it"}</Button>}
        {!state && <Button changes="letters" kind="primary" disabled={!parsed.ok || isEmpty || !preview?.count} onClick={start}>Requeue {many}</Button>}
      </footer>
    </Dialog>
  );
}

function usePreview(target: Target): Schemas["BulkPreview"] | null {
  const [preview, setPreview] = useState<Schemas["BulkPreview"] | null>(null);
  useEffect(() => {
    const of = { action: "requeue", ...target, dry_run: true } as BulkOf;
    void call("post", "/v1/bulk", { body: of }).then((answer) => answer.ok && setPreview(answer.value as Schemas["BulkPreview"]));
  }, []);
  return preview;
}

function Outcome({ state, total }: { state: State; total: number | null }) {
  return (
    <div role="status">
      <p><Progress label="Progress" done={state.done + state.refused.length} total={total} /> {state.isOver && `${state.done} requeued, ${state.refused.length} refused.`} {state.isOver && "What was not requeued is still listed."}</p>
      {state.trouble && <p class="refusal">{state.trouble}</p>}
      {state.refused.length > 0 && <ul class="samples">{state.refused.slice(0, 5).map((one) => <li key={one.run_id}><code>…{one.run_id.slice(-8)}</code> {one.why}</li>)}{state.refused.length > 5 && <li>… and {state.refused.length - 5} more</li>}</ul>}
    </div>
  );
}

/** A page of letters at a time, so that it can be followed and stopped. Those that the change does not fit stay. */
async function requeueAll(target: Target, patch: object, tell: (state: State) => void, stopped: { current: boolean }): Promise<void> {
  let state: State = { done: 0, refused: [], isOver: false };
  tell(state);
  for await (const ids of pagesOf(target)) {
    if (typeof ids === "string") state = { ...state, trouble: ids };
    else if (!stopped.current) state = await requeueSome(ids, patch, state);
    tell(state);
    if (stopped.current || state.trouble) break;
  }
  tell({ ...state, isOver: true });
}

async function requeueSome(ids: string[], patch: object, state: State): Promise<State> {
  const answer = await call("post", "/v1/dead-letters/requeue", { body: { run_ids: ids, payload_patch: patch } as never });
  if (!answer.ok) return { ...state, trouble: words(answer.error) };
  const refused = answer.value.refused.map((one) => ({ run_id: one.run_id, why: one.errors.map((error) => `${error.path}: ${error.message}`).join("; ") }));
  return { ...state, done: state.done + answer.value.count, refused: [...state.refused, ...refused] };
}

/** Ids, a hundred at a time, or what went wrong. */
async function* pagesOf(target: Target): AsyncGenerator<string[] | string> {
  if ("ids" in target) {
    for (let at = 0; at < target.ids.length; at += 100) yield target.ids.slice(at, at + 100);
    return;
  }
  let token: string | null = null;
  do {
    const query = { ...target.filter, ...(token ? { page_token: token } : {}) };
    const answer: Awaited<ReturnType<typeof lettersOf>> = await lettersOf(query);
    if (!answer.ok) return yield words(answer.error);
    token = answer.value.next_page_token;
    if (answer.value.dead_letters.length) yield answer.value.dead_letters.map((letter) => letter.run_id);
  } while (token);
}

function lettersOf(query: object) {
  return call("get", "/v1/dead-letters", { query });
}
