import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Job } from "../../api/types";
import { command, quoted } from "../../commands";
import { Button } from "../../components/Button";
import { ask } from "../../components/Confirm";
import { Copy } from "../../components/Copy";
import { Declared } from "../../components/Declared";
import { Dialog } from "../../components/Dialog";
import { Field } from "../../components/Field";
import { href } from "../../router";
import { isRecurring } from "../../schedules";
import { can } from "../../session";
import { tell, toast, words } from "../../toasts";

type Props = { job: Job; name: string; onChange: () => void };

export function Actions({ job, name, onChange }: Props) {
  const [isRunning, setRunning] = useState(false);
  const id = job.job_id;
  if (!can("jobs")) return null;
  const copy = <a class="button plain" href={href("/new", { from: id })}>Copy</a>;
  if (job.status !== "active" && job.status !== "paused") return copy;
  const pause = async (): Promise<void> => void (tell(await call("post", "/v1/jobs/{id}/pause", { path: { id } }), `${name} is paused.`) && onChange());
  return (
    <>
      <Button changes="jobs" onClick={() => setRunning(true)}>Run now</Button>
      {job.status === "active" ? <Button changes="jobs" onClick={pause}>Pause</Button> : <Resume job={job} name={name} onChange={onChange} />}
      <a class="button plain" href={href(`/jobs/${id}/edit`)}>Edit</a>
      {copy}
      <Button changes="jobs" kind="danger" onClick={() => askToCancel(job, name, onChange)}>Cancel</Button>
      {isRunning && <RunNow job={job} name={name} onClose={() => setRunning(false)} />}
    </>
  );
}

function askToCancel(job: Job, name: string, after: () => void): void {
  const id = job.job_id;
  ask({
    title: `Cancel ${name}?`,
    hits: (
      <>
        <p>No run of this job starts any more, and those that are running are stopped. This cannot be undone.</p>
        <Declared tags={job.tags} does="creates the job again" instead={(where) => `Take it out of ${where}, or pause it instead.`} />
      </>
    ),
    command: command("jobs cancel", [id]),
    label: "Cancel the job",
    isDangerous: true,
    act: () => call("delete", "/v1/jobs/{id}", { path: { id } }),
    done: `${name} is cancelled.`,
    after,
  });
}

const MISSED = { skip: "none of them", last: "only the last one", all: "all of them" };
type Missed = keyof typeof MISSED;

/** A recurring job may have missed occurrences: which of them run is asked. */
function Resume({ job, name, onChange }: Props) {
  const [isAsking, setAsking] = useState(false);
  const [missed, setMissed] = useState<Missed>("skip");
  const id = job.job_id;
  const resume = async (): Promise<void> => {
    const answer = await call("post", "/v1/jobs/{id}/resume", { path: { id }, body: { missed } });
    setAsking(false);
    if (tell(answer, `${name} goes on.`)) onChange();
  };
  const line = `${command("jobs resume", [id])}${missed === "skip" ? "" : ` --missed ${missed}`}`;
  return (
    <>
      <Button changes="jobs" kind="primary" onClick={() => (isRecurring(job.schedule) ? setAsking(true) : resume())}>Resume</Button>
      {isAsking && (
        <Dialog title={`Resume ${name}?`} onClose={() => setAsking(false)}>
          <fieldset class="choices">
            <legend>Its schedule goes on from now. Of the occurrences that the pause left out, run</legend>
            {(Object.keys(MISSED) as Missed[]).map((one) => (
              <label key={one}><input type="radio" name="missed" checked={missed === one} onChange={() => setMissed(one)} /> {MISSED[one]}</label>
            ))}
          </fieldset>
          <p class="command"><code>{line}</code><Copy text={line} what="the command" /></p>
          <footer><Button onClick={() => setAsking(false)}>Leave it paused</Button><Button kind="primary" changes="jobs" onClick={resume}>Resume</Button></footer>
        </Dialog>
      )}
    </>
  );
}

/** An additional run; its payload may be another. */
function RunNow({ job, name, onClose }: { job: Job; name: string; onClose: () => void }) {
  const [text, setText] = useState(JSON.stringify(job.payload ?? {}, null, 2));
  const [refusal, setRefusal] = useState("");
  const isOwn = text !== JSON.stringify(job.payload ?? {}, null, 2);
  const line = `${command("jobs run", [job.job_id])}${isOwn ? ` --payload ${quoted(compact(text))}` : ""}`;
  const run = async (): Promise<void> => {
    const payload = isOwn ? parsed(text) : undefined;
    if (payload === null) return setRefusal("This is not a JSON object. Write one like {\"name\": \"you\"}.");
    const answer = await call("post", "/v1/jobs/{id}/runNow", { path: { id: job.job_id }, body: (payload ? { payload } : {}) as never });
    if (!answer.ok) return setRefusal(words(answer.error));
    onClose();
    toast(`${name}: run …${answer.value.run_id.slice(-8)} starts now.`);
  };
  return (
    <Dialog title={`Run ${name} now?`} onClose={onClose}>
      <p>One more run, in addition to the schedule.</p>
      {job.large.payload
        ? <p class="hint">Its payload is too large to be shown here; the run gets it as it is.</p>
        : <Field label="Payload of this run" hint="A change is for this run only. Ctrl+Enter runs it." error={refusal}><textarea rows={Math.min(14, text.split("\n").length + 1)} spellcheck={false} value={text} onInput={(event: Event) => setText((event.currentTarget as HTMLTextAreaElement).value)} onKeyDown={(event: KeyboardEvent) => void (event.key === "Enter" && (event.ctrlKey || event.metaKey) && run())} /></Field>}
      {job.large.payload && refusal && <p class="refusal" role="alert">{refusal}</p>}
      <p class="command"><code>{line}</code><Copy text={line} what="the command" /></p>
      <footer><Button onClick={onClose}>Leave it</Button><Button kind="primary" changes="jobs" onClick={run}>Run now</Button></footer>
    </Dialog>
  );
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function compact(text: string): string {
  const value = parsed(text);
  return value ? JSON.stringify(value) : text;
}
