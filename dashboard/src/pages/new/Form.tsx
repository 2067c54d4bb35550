import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { FieldError } from "../../api/client";
import { Field } from "../../components/Field";
import { FIELDS, type Draft, type FieldSpec } from "./draft";
import type { Tasks } from "./New";
import { PayloadForm } from "./PayloadForm";
import { ScheduleForm } from "./ScheduleForm";

type Props = {
  draft: Draft;
  onDraft: (draft: Draft) => void;
  tasks: Tasks;
  errors: FieldError[];
  /** Somebody has pressed the button: say what is missing, too. */
  isTried: boolean;
  onSubmit: () => unknown;
  isEdit?: boolean;
  children: ComponentChildren;
};

const FIRST = ["name", "key", "tags"];

/** What the server says about a field, and about what is in it. */
export function errorsAt(errors: FieldError[], path: string): string[] {
  return errors.filter((one) => one.path === path || one.path.startsWith(`${path}.`)).map((one) => (one.path === path ? one.message : `${one.path.slice(path.length + 1)}: ${one.message}`));
}

/** Whether the form has a place for this error. */
export function hasField({ path }: FieldError): boolean {
  const name = path.split(".")[0]!;
  return ["task", "schedule", "payload"].includes(name) || FIELDS.some((field) => field.name === name);
}

export function typed(event: Event): string {
  return (event.currentTarget as HTMLInputElement).value;
}

export function Form({ draft, onDraft, tasks, errors, isTried, onSubmit, isEdit, children }: Props) {
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  const touch = (name: string): void => void (touched.has(name) || setTouched(new Set([...touched, name])));
  const errorOf = (name: string): string | undefined => (isTried || isEdit || touched.has(name) ? errorsAt(errors, name).join("; ") || undefined : undefined);
  const setField = (name: string, text: string): void => (touch(name), onDraft({ ...draft, fields: { ...draft.fields, [name]: text } }));
  const task = tasks.find((one) => one.name === draft.task);
  const control = (spec: FieldSpec) => <Control key={spec.name} spec={spec} text={draft.fields[spec.name] ?? ""} error={errorOf(spec.name)} isFixed={isEdit && spec.name === "key"} onText={(text) => setField(spec.name, text)} />;
  return (
    <form class="job-form" aria-label="Job" noValidate onSubmit={(event) => (event.preventDefault(), void onSubmit())}>
      <Field label="Task" error={errorOf("task")} hint={task && !task.workers ? "No live worker has this task: its runs wait until one starts." : undefined}>
        <select required value={draft.task} onChange={(event: Event) => (touch("task"), onDraft({ ...draft, task: typed(event), payload: typed(event) === draft.task ? draft.payload : {} }))}>
          <option value="" disabled>Choose a task</option>
          {!task && draft.task && <option value={draft.task}>{draft.task} (unknown)</option>}
          {tasks.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
        </select>
      </Field>
      <div class="field-row">{FIELDS.filter(({ name }) => FIRST.includes(name) && !(isEdit && name === "key" && !draft.fields.key)).map(control)}</div>
      <ScheduleForm draft={draft} onDraft={(next) => (touch("schedule"), onDraft(next))} error={errorOf("schedule")} />
      {draft.task && <PayloadForm key={draft.task} schema={task?.schema} payload={draft.payload} onPayload={(payload) => (touch("payload"), onDraft({ ...draft, payload }))} errors={isTried || isEdit || touched.has("payload") ? errors : []} />}
      <details>
        <summary>Policies: retries, overlap, queue, limits, notices</summary>
        <div class="field-grid">{FIELDS.filter(({ name }) => !FIRST.includes(name)).map(control)}</div>
      </details>
      {children}
    </form>
  );
}

type ControlProps = { spec: FieldSpec; text: string; error?: string; isFixed?: boolean; onText: (text: string) => void };

function Control({ spec, text, error, isFixed, onText }: ControlProps) {
  const choices = spec.kind === "flag" ? ["true", "false"] : spec.choices;
  if (choices) {
    return (
      <Field label={spec.label} hint={spec.hint} error={error}>
        <select value={text} onChange={(event: Event) => onText(typed(event))}>
          <option value="">default</option>
          {choices.map((one) => <option key={one} value={one}>{spec.kind === "flag" ? (one === "true" ? "yes" : "no") : one}</option>)}
        </select>
      </Field>
    );
  }
  return (
    <Field label={spec.label} hint={isFixed ? "A job keeps its key." : spec.kind === "json" ? undefined : spec.hint} error={error}>
      <input type="text" inputMode={spec.kind === "number" ? "numeric" : undefined} spellcheck={false} autocomplete="off" placeholder={spec.kind === "json" ? spec.hint : undefined} readOnly={isFixed} value={text} onInput={(event: Event) => onText(typed(event))} />
    </Field>
  );
}
