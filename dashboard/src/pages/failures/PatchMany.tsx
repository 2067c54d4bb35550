import { useEffect, useState } from "preact/hooks";
import { call } from "../../api/client";
import type { BulkOf, DeadLetter, Schemas } from "../../api/types";
import { command, quoted } from "../../commands";
import { startBulk } from "../../components/Bulk";
import { Button } from "../../components/Button";
import { Copy } from "../../components/Copy";
import { Dialog } from "../../components/Dialog";
import { Diff } from "../../components/Diff";
import { Field } from "../../components/Field";
import { runName } from "../../names";
import { toast, words } from "../../toasts";
import { type LetterFilter } from "./Letters";
import { parseObject, patched } from "./patching";

export type Target = { ids: string[] } | { filter: LetterFilter };
type Props = { target: Target; samples: DeadLetter[]; onClose: () => void; onDone: () => void };

const KEPT = "oncue.patch"; // the last patch, so that a reload does not lose what was typed

/** Changes a part of many payloads, and runs them again: a bulk, which goes on when the page is closed. */
export function PatchMany({ target, samples, onClose, onDone }: Props) {
  const [text, setText] = useState(() => sessionStorage.getItem(KEPT) ?? "{\n  \n}");
  const [refusal, setRefusal] = useState("");
  const preview = usePreview(target);
  const parsed = parseObject(text);
  const isEmpty = parsed.ok && !Object.keys(parsed.value).length;
  const sample = samples[0];
  const many = preview ? `${preview.at_least ? "at least " : ""}${preview.count.toLocaleString("en")} ${preview.count === 1 ? "dead letter" : "dead letters"}` : "…";
  const line = command("dead requeue", "ids" in target ? target.ids : (target.filter as Record<string, string>)) + ` --patch ${parsed.ok ? quoted(JSON.stringify(parsed.value)) : "…"}`;
  const start = async (): Promise<void> => {
    if (!parsed.ok) return;
    sessionStorage.setItem(KEPT, text);
    const begun = await startBulk({ action: "requeue", ...target, payload_patch: parsed.value } as BulkOf);
    if (!begun.ok) return setRefusal(words(begun.error));
    toast(`Change and run again: started for ${many}.`);
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Change ${many} and run again`} onClose={onClose} wide>
      <Field label="Change" hint="Names that are left out stay as they are, null removes one, objects are merged (JSON Merge Patch)." error={parsed.ok ? refusal || undefined : parsed.why}>
        <textarea class="payload" rows={5} spellcheck={false} value={text} onInput={(event) => (setText(event.currentTarget.value), setRefusal(""))} />
      </Field>
      {sample && parsed.ok && !isEmpty && <><h3>What it does to {runName(sample)}</h3><Diff before={sample.payload ?? {}} after={patched(sample.payload, parsed.value)} label="What changes in the payload of the first one" /></>}
      <p class="hint">Letters whose changed payload does not fit their task are refused, and stay.</p>
      <p class="command"><code>{line}</code><Copy text={line} what="the command" /></p>
      <footer>
        <Button onClick={onClose}>Leave it</Button>
        <Button changes="letters" kind="primary" disabled={!parsed.ok || isEmpty || !preview?.count} onClick={start}>Run {many} again</Button>
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
