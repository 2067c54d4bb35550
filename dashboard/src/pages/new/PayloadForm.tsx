import { useState } from "preact/hooks";
import type { FieldError } from "../../api/client";
import { Field } from "../../components/Field";
import { errorsAt, typed } from "./Form";
import { payloadFields, shownValue, typedValue, type PayloadField } from "./schema";

type Payload = Record<string, unknown>;
type Props = { schema: unknown; payload: Payload; onPayload: (payload: Payload) => void; errors: FieldError[] };

/** A field for each argument of the task, or the whole payload as JSON. */
export function PayloadForm({ schema, payload, onPayload, errors }: Props) {
  const fields = payloadFields(schema);
  const [isJson, setJson] = useState(fields === null);
  const known = new Set(fields?.map((field) => field.name));
  const rest = errors.filter((one) => one.path === "payload" || (one.path.startsWith("payload.") && !known.has(one.path.split(".")[1]!)));
  const set = (name: string, value: unknown): void => {
    const { [name]: _, ...others } = payload;
    onPayload(value === undefined ? others : { ...payload, [name]: value });
  };
  return (
    <fieldset class="payload">
      <legend>Payload</legend>
      {fields && <button type="button" class="button quiet" aria-pressed={isJson} onClick={() => setJson(!isJson)}>as JSON</button>}
      {isJson || !fields
        ? <JsonPayload payload={payload} onPayload={onPayload} error={errorsAt(errors, "payload").join("; ")} />
        : (
          <>
            {!fields.length && <p class="faint">This task takes no arguments.</p>}
            <div class="field-grid">{fields.map((field) => <Argument key={field.name} field={field} value={payload[field.name]} error={errorsAt(errors, `payload.${field.name}`).join("; ")} onValue={(value) => set(field.name, value)} />)}</div>
            {rest.map((one) => <p class="refusal" key={one.path + one.message}>{one.message}</p>)}
          </>
        )}
    </fieldset>
  );
}

type ArgumentProps = { field: PayloadField; value: unknown; error: string; onValue: (value: unknown) => void };

function Argument({ field, value, error, onValue }: ArgumentProps) {
  const [text, setText] = useState(shownValue(value, field.kind));
  const choices = field.kind === "flag" ? ["true", "false"] : field.kind === "choice" ? field.choices : null;
  const change = (event: Event): void => {
    setText(typed(event));
    onValue(typedValue(typed(event), field.kind));
  };
  return (
    <Field label={field.isRequired ? `${field.name} (required)` : field.name} hint={field.hint || undefined} error={error || undefined}>
      {choices
        ? <select value={text} onChange={change}><option value="">{field.isRequired ? "Choose" : "default"}</option>{choices.map((one) => <option key={one} value={one}>{one}</option>)}</select>
        : <input type="text" inputMode={field.kind === "number" ? "decimal" : undefined} class={field.kind === "json" ? "code-input" : undefined} placeholder={field.kind === "json" ? "JSON" : undefined} spellcheck={false} autocomplete="off" required={field.isRequired} value={text} onInput={change} />}
    </Field>
  );
}

function JsonPayload({ payload, onPayload, error }: { payload: Payload; onPayload: (payload: Payload) => void; error: string }) {
  const [text, setText] = useState(JSON.stringify(payload, null, 2));
  const [isWrong, setWrong] = useState(false);
  const change = (event: Event): void => {
    setText(typed(event));
    try {
      const value: unknown = JSON.parse(typed(event) || "{}");
      const isObject = !!value && typeof value === "object" && !Array.isArray(value);
      setWrong(!isObject);
      if (isObject) onPayload(value as Payload);
    } catch {
      setWrong(true);
    }
  };
  return (
    <Field label="The arguments, as a JSON object" error={isWrong ? "This is not a JSON object yet." : error || undefined}>
      <textarea rows={Math.min(16, text.split("\n").length + 1)} spellcheck={false} value={text} onInput={change} />
    </Field>
  );
}
