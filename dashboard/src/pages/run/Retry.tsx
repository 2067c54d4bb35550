import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { WholeRun } from "../../api/types";
import { quoted } from "../../commands";
import { Button } from "../../components/Button";
import { Copy } from "../../components/Copy";
import { Dialog } from "../../components/Dialog";
import { Field } from "../../components/Field";
import { runName } from "../../names";
import { go, href } from "../../router";
import { toast, words } from "../../toasts";

/** Runs it again, with the payload as it is or edited. */
export function Retry({ run, onClose }: { run: WholeRun; onClose: () => void }) {
  const before = JSON.stringify(run.payload ?? {}, null, 2);
  const [payload, setPayload] = useState(before);
  const [refusal, setRefusal] = useState("");
  const isChanged = payload !== before;
  const retry = async (): Promise<void> => {
    const body = isChanged ? parsed(payload) : {};
    if (!body) return setRefusal("This is not valid JSON: an object is needed.");
    const answer = await call("post", "/v1/runs/{id}/retry", { path: { id: run.run_id }, body });
    if (!answer.ok) return setRefusal(words(answer.error));
    onClose();
    toast(`${runName(run)} runs again.`);
    go(href(`/runs/${answer.value.run_id}`));
  };
  const line = ["oncue runs retry", run.run_id, ...(isChanged ? ["--payload", quoted(compact(payload))] : [])].join(" ");
  return (
    <Dialog title={`Run ${runName(run)} again?`} onClose={onClose} wide>
      <p>A new run starts now, with the definition that this run had{run.status === "dead" ? "; its dead letter is closed" : ""}.</p>
      {run.large.payload !== undefined ? <p class="faint">Its payload is too large to be edited here; the new run gets the same.</p> : (
        <Field label="Payload" hint={isChanged ? "Changed for the new run only." : "As it was. Edit it to run with another."} error={refusal}>
          <textarea rows={Math.min(18, payload.split("\n").length + 1)} spellcheck={false} value={payload} onInput={(event) => (setPayload((event.currentTarget as HTMLTextAreaElement).value), setRefusal(""))} />
        </Field>
      )}
      {run.large.payload !== undefined && refusal && <p class="refusal" role="alert">{refusal}</p>}
      <p class="command"><code>{line}</code><Copy text={line} what="the command" /></p>
      <footer>
        <Button onClick={onClose}>Leave it</Button>
        <Button kind="primary" changes="runs" onClick={retry}>Run again</Button>
      </footer>
    </Dialog>
  );
}

function parsed(payload: string): { payload: Record<string, never> } | null {
  try {
    const value: unknown = JSON.parse(payload);
    return value && typeof value === "object" && !Array.isArray(value) ? { payload: value as Record<string, never> } : null;
  } catch {
    return null;
  }
}

function compact(payload: string): string {
  const value = parsed(payload);
  return value ? JSON.stringify(value.payload) : payload;
}
