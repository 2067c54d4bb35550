import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../../api/client";
import { useGet } from "../../api/use";
import { useAnswer } from "../../api/useAnswer";
import type { Job, Schemas } from "../../api/types";
import { Button } from "../../components/Button";
import { Declared, isDeclared } from "../../components/Declared";
import { Diff } from "../../components/Diff";
import { Empty } from "../../components/Empty";
import { NextChange } from "../../components/NextChange";
import { PageHead } from "../../components/PageHead";
import { Trouble } from "../../components/Trouble";
import { useEvents } from "../../live";
import { jobName } from "../../names";
import { base, go, href } from "../../router";
import { session } from "../../session";
import { toast, words } from "../../toasts";
import { Conflict } from "./Conflict";
import { PAUSE } from "./Create";
import { bodyOf, changesOf, draftOf, rebased, type Draft } from "./draft";
import { Form } from "./Form";
import type { Tasks } from "./New";
import { ScheduleDiff } from "./ScheduleDiff";
import { SnippetTabs } from "./SnippetTabs";
import { editSnippets } from "./snippets";

type Preview = Schemas["EditPreview"];
/** The job as the form began with it. */
type Base = { job: Job; etag: string | null; draft: Draft };

/** What was typed and not saved, by user and job, while this tab lives: Back, or signing in again, loses nothing. */
const drafts = new Map<string, { version: number | null; draft: Draft }>();
const keyOf = (job: Job): string => `${session.peek()?.user_id} ${job.job_id}`;

function keptDraft({ job, draft }: Base): Draft {
  const kept = drafts.get(keyOf(job));
  return kept && kept.version === job.version ? kept.draft : draft;
}

export function Edit({ id, tasks }: { id: string; tasks: Tasks }) {
  const loaded = useGet("/v1/jobs/{id}", { path: { id } });
  const [start, setStart] = useState<Base | null>(null);
  useEffect(() => {
    if (loaded.data && !start) setStart({ job: loaded.data, etag: loaded.etag, draft: draftOf(loaded.data) });
  }, [loaded.data]);
  useEvents("job", (events) => events.some((one) => one.job_id === id) && loaded.reload(), [id]);
  if (loaded.error && !loaded.data) return <Trouble error={loaded.error} onAgain={loaded.reload} />;
  if (!start) return null;
  if (start.job.status !== "active" && start.job.status !== "paused") return <><PageHead title={jobName(start.job)} /><Empty title={`This job is ${start.job.status}: it cannot be edited, only copied.`} command={`oncue export ${id}`} /></>;
  const newest = { job: loaded.data ?? start.job, etag: loaded.etag, draft: draftOf(loaded.data ?? start.job) };
  return <EditForm key={id} start={start} newest={newest} onBase={setStart} tasks={tasks} reload={loaded.reload} />;
}

type FormProps = { start: Base; newest: Base; onBase: (base: Base) => void; tasks: Tasks; reload: () => void };

function EditForm({ start, newest, onBase, tasks, reload }: FormProps) {
  const [draft, setDraft] = useState(() => keptDraft(start));
  const [round, setRound] = useState(0); // the fields of a form keep their texts: a new base needs new ones
  const [failure, setFailure] = useState("");
  const { job, etag } = start;
  const key = useRef(keyOf(job)).current;
  const forget = (): void => void drafts.delete(key);
  const type = (next: Draft): void => (drafts.set(key, { version: job.version, draft: next }), setDraft(next));
  const body = changesOf(start.draft, draft);
  const hasChanges = Object.keys(body).length > 0;
  const lost = body.tags && job.tags.find((tag) => isDeclared(tag) && !(body.tags as string[]).includes(tag));
  const isBehind = (newest.job.version ?? 0) > (job.version ?? 0);
  const preview = useAnswer(hasChanges && !isBehind ? JSON.stringify([job.version, body]) : null, (signal) => call("post", "/v1/jobs/{id}/preview", { path: { id: job.job_id }, body: body as never, signal }), PAUSE);
  const save = async (): Promise<void> => {
    const answer = await call("patch", "/v1/jobs/{id}", { path: { id: job.job_id }, body: body as never, headers: etag ? { "If-Match": etag } : {} });
    if (!answer.ok && answer.error.status === 412) return reload();
    if (!answer.ok) return setFailure(words(answer.error));
    forget();
    toast(`${jobName(job)} is changed.`);
    go(href(`/jobs/${job.job_id}`));
  };
  const settle = (next: Draft): void => {
    onBase(newest);
    forget();
    setDraft(next);
    setRound(round + 1);
    setFailure("");
  };
  return (
    <>
      <PageHead title={`Edit ${jobName(job)}`} note={<p class="faint">Version {job.version}. Runs that have started do not change.</p>} />
      {isBehind && <Conflict mine={Object.keys(body)} base={job} newest={newest.job} onKeep={() => settle(rebased(start.draft, draft, newest.draft))} onDrop={() => settle(newest.draft)} />}
      <div class="new">
        <Form key={round} draft={draft} onDraft={type} tasks={tasks} errors={preview.error?.errors ?? []} isTried={false} isEdit onSubmit={save}>
          {failure && <p class="refusal" role="alert">{failure}</p>}
          <Declared tags={job.tags} does={lost ? `is refused when the job has no tag ${lost}` : "puts the job back"} instead={(where) => (lost ? "Keep the tag." : `Change ${where} instead.`)} />
          <div class="form-actions"><Button kind="primary" type="submit" changes="jobs" disabled={!hasChanges || isBehind}>Save the change</Button><a class="button plain" href={href(`/jobs/${job.job_id}`)} onClick={forget}>Leave it</a></div>
        </Form>
        <aside class="preview" aria-label="What the change does">
          {!hasChanges && <section class="told"><h2>Nothing is changed yet</h2><p class="faint">Change a field to see which runs it moves, and when.</p></section>}
          {!hasChanges && (job.schedule.cron || job.schedule.calendar) && <NextChange schedule={job.schedule} zone={job.schedule.timezone ?? "UTC"} beyond={0} />}
          {hasChanges && preview.error && <Trouble error={preview.error} />}
          {hasChanges && !preview.error && preview.data && <Effect preview={preview.data} isStale={preview.loading} isPaused={job.status === "paused"} />}
          {hasChanges && <SnippetTabs snippets={editSnippets(job.job_id, job.version, body, bodyOf(draft), location.origin + base.replace(/\/$/, ""))} />}
        </aside>
      </div>
    </>
  );
}

function Effect({ preview, isStale, isPaused }: { preview: Preview; isStale: boolean; isPaused: boolean }) {
  const fields = Object.entries(preview.changes);
  return (
    <div class={isStale ? "effect is-stale" : "effect"} aria-live="polite">
      <ScheduleDiff preview={preview} isPaused={isPaused} />
      <NextChange schedule={preview.job.schedule} zone={preview.job.schedule.timezone ?? "UTC"} beyond={Date.parse(preview.after.occurrences.at(-1)?.at ?? "") || 0} />
      {fields.length > 0 && (
        <section class="told">
          <h2>{fields.length === 1 ? "One field changes" : `${fields.length} fields change`}</h2>
          <Diff label="What changes" before={Object.fromEntries(fields.map(([name, one]) => [name, one.old]))} after={Object.fromEntries(fields.map(([name, one]) => [name, one.new]))} />
        </section>
      )}
    </div>
  );
}
