import { useState } from "preact/hooks";
import { call } from "../../api/client";
import { useGet } from "../../api/use";
import type { WholeRun } from "../../api/types";
import { command } from "../../commands";
import { Button } from "../../components/Button";
import { ask } from "../../components/Confirm";
import { Copy } from "../../components/Copy";
import { PageHead } from "../../components/PageHead";
import { Progress } from "../../components/Progress";
import { StateMark } from "../../components/StateMark";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { WhyChain } from "../../components/WhyChain";
import { useEvents } from "../../live";
import { callRun, runName, shortId } from "../../names";
import { href } from "../../router";
import { isLive, isRunning, isWaiting, startedBy } from "../../runs";
import { can } from "../../session";
import { stateOf } from "../../states";
import { second } from "../../time";
import { askToDiscard } from "../failures/Letter";
import type { Params } from "../pages";
import { Attempts } from "./Attempts";
import { Log } from "./Log";
import { Retry } from "./Retry";
import { sentenceOf } from "./sentence";
import { Values } from "./Values";

export default function Run({ params }: { params: Params }) {
  const id = params.id!;
  const run = useGet("/v1/runs/{id}", { path: { id } });
  useEvents("run", (events) => {
    const event = events.find((one) => one.run_id === id);
    if (!event) return;
    run.update((shown) => ({ ...shown, ...event, attempts: shown.attempts }));
    if (run.data?.status !== event.status || run.data.attempt_number !== event.attempt_number) run.reload();
  }, [id, run.data?.status, run.data?.attempt_number]);
  if (run.error && !run.data) return <Trouble error={run.error} onAgain={run.reload} />;
  if (!run.data) return null;
  return (
    <>
      <PageHead kind="Run of" title={callRun(run.data).title} id={callRun(run.data).id} note={<Facts run={run.data} />}><Actions run={run.data} onChange={run.reload} /></PageHead>
      <Sentence run={run.data} />
      {(isWaiting(run.data) || run.data.status === "cancelling") && <WhyChain of={{ runId: id }} queue={run.data.queue ?? undefined} />}
      <Attempts run={run.data} />
      <Log runId={id} isLive={isLive(run.data)} />
      <Values run={run.data} />
    </>
  );
}

function Facts({ run }: { run: WholeRun }) {
  return (
    <p class="facts">
      <StateMark state={run.status} />
      <a href={href(`/jobs/${run.job_id}`)}>its job</a>
      {run.task !== callRun(run).title && <span>{run.task}</span>}
      <span class="faint">queue <a href={href(`/queues/${encodeURIComponent(run.queue ?? "default")}`)}>{run.queue}</a></span>
      {run.due_time && <span>due <When at={run.due_time} as="clock" focusable /></span>}
      {run.scheduled_for !== run.due_time && <span class="faint">scheduled for <When at={run.scheduled_for} as="clock" focusable /></span>}
      {run.end_time && <span>ended <When at={run.end_time} focusable /></span>}
      {run.executor_id && <span class="faint">worker <a href={href(`/workers/${run.executor_id}`)}>{run.executor_name ?? shortId(run.executor_id)}</a></span>}
      {!run.parent && <span class="faint">{startedBy(run)}</span>}
      <Chain run={run} />
      <span class="faint"><code>{run.run_id}</code><Copy text={run.run_id} what="the id" /></span>
    </p>
  );
}

/** The run that this one runs again, and those that ran this one again. */
function Chain({ run }: { run: WholeRun }) {
  const later = useGet(isLive(run) ? null : "/v1/runs", { query: { job_id: run.job_id, trigger: "requeue" } });
  useEvents("run", (events) => events.some((one) => one.parent === run.run_id) && later.reload(), [run.run_id]);
  const following = (later.data?.runs ?? []).filter((one) => one.parent === run.run_id);
  return (
    <>
      {run.parent && <span>runs <a href={href(`/runs/${run.parent}`)}>{shortId(run.parent)}</a> again</span>}
      {following.map((one) => <span key={one.run_id}>followed by <a href={href(`/runs/${one.run_id}`)}>{shortId(one.run_id)}</a> <StateMark state={one.status} /></span>)}
    </>
  );
}

function Sentence({ run }: { run: WholeRun }) {
  const { tone, glyph } = stateOf(run.status);
  const isTroubled = run.status === "dead" || run.status === "retrying";
  return (
    <section class={`sentence ${tone}`} aria-label="In short">
      <p>
        <span class="glyph" aria-hidden="true">{glyph}</span> {sentenceOf(run, isLive(run) ? second.value : 0)}
        {" "}<Others run={run} />
        {isRunning(run) && run.progress && <> <Progress label="Progress" done={run.progress.done ?? 0} total={run.progress.total ?? null} /></>}
      </p>
      {isTroubled && run.error_message && <p class="sentence-more">{run.error_message}</p>}
    </section>
  );
}

/** How many other dead letters have the same error. */
function Others({ run }: { run: WholeRun }) {
  const letters = useGet(run.fingerprint ? "/v1/dead-letters" : null, { query: { fingerprint: run.fingerprint ?? undefined, limit: MOST_OTHERS + 1 } });
  if (!run.fingerprint || !letters.data) return null;
  const others = letters.data.dead_letters.filter((one) => one.run_id !== run.run_id).length;
  const link = href(`/failures/${run.fingerprint}`);
  if (!others) return <a href={link}>No other failed like this.</a>;
  return <a href={link}>{others}{others >= MOST_OTHERS || letters.data.next_page_token ? " or more" : ""} {others === 1 ? "other" : "others"} failed like this.</a>;
}

const MOST_OTHERS = 50;

function Actions({ run, onChange }: { run: WholeRun; onChange: () => void }) {
  const [isRetrying, setRetrying] = useState(false);
  const cancel = (): void => ask({
    title: `Cancel this run of ${runName(run)}?`,
    hits: <p>{isRunning(run) ? "It is stopped where it is." : "It will not start."} Its job goes on. This cannot be undone; it can be run again.</p>,
    command: command("runs cancel", [run.run_id]),
    label: "Cancel the run",
    isDangerous: true,
    act: () => call("post", "/v1/runs/{id}/cancel", { path: { id: run.run_id } }),
    done: `${runName(run)}: the run is being cancelled.`,
    after: onChange,
  });
  if (isLive(run)) return run.status === "cancelling" ? null : <Button changes="runs" kind="danger" onClick={cancel}>Cancel</Button>;
  if (isClosed(run)) return can("runs") ? <span class="faint">It was run again or discarded: it cannot be run again.</span> : null;
  return (
    <>
      <Button changes="runs" onClick={() => setRetrying(true)}>Run again</Button>
      {run.fingerprint && <Button changes="letters" kind="danger" onClick={() => askToDiscard(run, onChange)}>Discard</Button>}
      {isRetrying && <Retry run={run} onClose={() => setRetrying(false)} />}
    </>
  );
}

/** Whether it is dead and no open dead letter any more. Letters of notices, and of runs that died outside an attempt, have no fingerprint either. */
function isClosed(run: WholeRun): boolean {
  const diedInAttempt = run.attempts.at(-1)?.end_time === run.end_time;
  return run.status === "dead" && !run.fingerprint && diedInAttempt && run.task !== "notify";
}
