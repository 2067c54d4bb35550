import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call, type ApiError } from "../../api/client";
import type { Job } from "../../api/types";
import { useAnswer } from "../../api/useAnswer";
import { Button } from "../../components/Button";
import { NextChange } from "../../components/NextChange";
import { Occurrences } from "../../components/Occurrences";
import { PageHead } from "../../components/PageHead";
import { Trouble } from "../../components/Trouble";
import { base, go, href, place, setHash } from "../../router";
import { toast, words } from "../../toasts";
import { draftText } from "./address";
import { bodyOf, scheduleOf, type Draft } from "./draft";
import { errorsAt, Form, hasField } from "./Form";
import type { Tasks } from "./New";
import { payloadFields } from "./schema";
import { SnippetTabs } from "./SnippetTabs";
import { createSnippets } from "./snippets";

export const PAUSE = 350; // ms without a key pressed, before the server is asked

export function Create({ tasks, first }: { tasks: Tasks; first: Draft }) {
  const [draft, setDraft] = useState(first);
  const [isTried, setTried] = useState(false);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const isTooLong = useAddress(draft, draft !== first);
  const body = bodyOf(draft);
  const task = tasks.find((one) => one.name === draft.task);
  const isWhole = payloadFields(task?.schema)?.every((field) => !field.isRequired || field.name in draft.payload) ?? true;
  const checked = useAnswer(draft.task && (isWhole || isTried) ? JSON.stringify(body) : null, (signal) => call("post", "/v1/jobs", { body: body as never, query: { dry_run: true } as never, signal }), PAUSE);
  const create = async (): Promise<void> => {
    setTried(true);
    if (!draft.task) return setFailure({ ...NO_TASK });
    const answer = await call("post", "/v1/jobs", { body: body as never, headers: { "Idempotency-Key": crypto.randomUUID?.() ?? String(Math.random()) } });
    if (!answer.ok) return setFailure(answer.error);
    toast(`${answer.value.name ?? answer.value.task} is created.`);
    go(href(`/jobs/${answer.value.job_id}`));
  };
  const form = useRef<HTMLDivElement>(null);
  useEffect(() => { // the first field that is refused, as they stand on the page
    if (!failure) return;
    const wrong = form.current?.querySelector<HTMLElement>('[aria-invalid="true"]');
    wrong?.closest("details")?.setAttribute("open", "");
    wrong?.scrollIntoView({ block: "center" });
    wrong?.focus({ preventScroll: true });
  }, [failure]);
  const errors = (checked.error ?? failure)?.errors ?? [];
  return (
    <>
      <PageHead title="New job" />
      <div class="new" ref={form}>
        <Form draft={draft} onDraft={(next) => (setFailure(null), setDraft(next))} tasks={tasks} errors={errors} isTried={isTried} onSubmit={create}>
          {failure && <p class="refusal" role="alert">{notCreated(failure)}</p>}
          {isTooLong && <p class="hint">This draft is too long for the address of the page: it is lost when you leave or reload it.</p>}
          <div class="form-actions"><Button kind="primary" type="submit" changes="jobs">Create job</Button><a class="button plain" href={href("/jobs")}>Leave it</a></div>
        </Form>
        <aside class="preview" aria-label="Preview">
          <SchedulePreview draft={draft} />
          {checked.error && !checked.error.errors.length && <Trouble error={checked.error} />}
          <SnippetTabs snippets={createSnippets(body, location.origin + base.replace(/\/$/, ""))} />
        </aside>
      </div>
    </>
  );
}

const NO_TASK: ApiError = { status: 422, title: "", detail: "", errors: [{ path: "task", code: "required", message: "Choose a task first." }] };

/** Beside the button: what has no field of the form, and how many fields say what is wrong with them. */
function notCreated(error: ApiError): string {
  const atFields = error.errors.filter(hasField);
  if (!atFields.length) return words(error);
  const others = error.errors.filter((one) => !hasField(one));
  return [`Not created: ${atFields.length === 1 ? "one field is" : `${atFields.length} fields are`} wrong.`, ...others.map((one) => (one.path ? `${one.path}: ${one.message}` : one.message))].join(" ");
}

/** Keeps the draft in the address, so that it survives a reload and can be sent to somebody. Whether it is too long for that. */
function useAddress(draft: Draft, isTouched: boolean): boolean {
  const text = useMemo(() => draftText(draft), [draft]);
  useEffect(() => {
    if (!isTouched) return;
    const timer = setTimeout(() => setHash(text ?? ""), PAUSE);
    return () => clearTimeout(timer);
  }, [text, isTouched, place.value]);
  useEffect(() => {
    const reload = (): void => location.reload(); // somebody has opened another draft in this tab
    addEventListener("hashchange", reload);
    return () => removeEventListener("hashchange", reload);
  }, []);
  return text === null;
}

/** In words, the next ten, and what daylight saving does to them and at the next change of clocks. */
function SchedulePreview({ draft }: { draft: Draft }) {
  const schedule = scheduleOf(draft);
  const isAsked = schedule !== null && !!draft.when[draft.kind].trim();
  const preview = useAnswer(isAsked ? JSON.stringify(schedule) : null, (signal) => call("post", "/v1/schedules/preview", { body: { schedule: schedule as never, count: 10 }, signal }), PAUSE);
  if (schedule === null) return <section class="told"><h2>Runs once, now</h2></section>;
  if (!isAsked) return <section class="told"><h2>When?</h2><p class="faint">Fill in the schedule to see when it runs.</p></section>;
  const { data, error } = preview;
  const isNow = data && !error && !preview.loading;
  return (
    <>
      <section class={preview.loading ? "told is-stale" : "told"} aria-live="polite">
        {error ? <><h2>This schedule is refused</h2>{errorsAt(error.errors, "schedule").map((text) => <p class="refusal" key={text}>{text}</p>)}{!error.errors.length && <p class="refusal">{error.detail}</p>}</>
          : data && (
            <>
              <h2>{data.description}</h2>
              {data.occurrences.length > 0 && <Occurrences label="Next runs" occurrences={data.occurrences} zone={draft.kind === "every" ? "UTC" : draft.schedule.timezone} />}
              {data.skipped.length > 0 && <ul class="notes">{data.skipped.map((note) => <li key={note}>{note}</li>)}</ul>}
            </>
          )}
      </section>
      {isNow && <NextChange schedule={schedule as Job["schedule"]} zone={draft.schedule.timezone || "UTC"} beyond={Date.parse(data.occurrences.at(-1)?.at ?? "") || 0} />}
    </>
  );
}
