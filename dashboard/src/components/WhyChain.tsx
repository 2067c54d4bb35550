import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/client";
import type { Explanation, Run } from "../api/types";
import { onResync, useEvents } from "../live";
import { callRun } from "../names";
import { href } from "../router";
import { Copy } from "./Copy";
import { Name } from "./Name";
import { remedyOf } from "./remedies";
import { StateMark } from "./StateMark";
import { When } from "./When";

const LOOK_AGAIN = 10_000; // ms: places in line and heartbeats send no events
const MOST_LINKS = 8; // of the chain; longer ones go on at the page of the last run

/** Whose "why": of a job, or of a run. */
export type Of = { jobId: string; runId?: undefined } | { runId: string; jobId?: undefined };
export type Link = { why: Explanation; run: Run | null };

/** Why a job or run waits, down to the root: what it waits for, what that waits for, and the command that helps. */
export function WhyChain({ of, queue, labels }: { of: Of; queue?: string; labels?: string[] }) {
  const chain = useChain(of);
  if (!chain.length) return null;
  const [first, ...rest] = chain;
  const root = chain[chain.length - 1]!;
  const remedy = remedyOf(root, { job: of.jobId, queue, labels });
  return (
    <section class="why" aria-label="Why">
      <p><b>Why</b> <Detail text={first!.why.detail} /> <Place why={first!.why} /></p>
      {rest.length > 0 && <ol class="why-chain">{rest.map((link) => <Blocker key={link.run?.run_id} link={link} />)}</ol>}
      {remedy && (
        <p class="remedy">
          <span>{remedy.words}</span>
          <code>{remedy.command}</code><Copy text={remedy.command} what="the command" />
        </p>
      )}
    </section>
  );
}

const NAMED = /\b(run|worker) ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b|\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;

/** The API's words; runs and workers that they name are links, with the end of the id, and times are on the clock that is shown. */
function Detail({ text }: { text: string }) {
  const shown: ComponentChildren[] = [];
  let end = 0;
  for (const found of text.matchAll(NAMED)) {
    const [all, kind, id] = found as unknown as [string, string | undefined, string];
    shown.push(text.slice(end, found.index), kind ? <a href={href(`/${kind}s/${id}`)} title={id}>{kind} …{id.slice(-8)}</a> : <When at={all} as="clock" />);
    end = found.index + all.length;
  }
  return <>{shown}{text.slice(end)}</>;
}

function Place({ why }: { why: Explanation }) {
  if (why.position === null) return null;
  return <span class="place">{why.position === 1 ? "Next in line." : `Place ${why.position.toLocaleString("en")} in line.`}</span>;
}

function Blocker({ link }: { link: Link }) {
  const run = link.run!;
  return (
    <li>
      <a href={href(`/runs/${run.run_id}`)}><Name of={callRun(run)} /></a> <StateMark state={run.status} /> <Detail text={link.why.detail} /> <Place why={link.why} />
    </li>
  );
}

/** The explanation of the object, then those of its holders. Asked again when a run of the chain changes. */
function useChain(of: Of): Link[] {
  const [chain, setChain] = useState<Link[]>([]);
  const [round, setRound] = useState(0);
  const again = (): void => setRound((n) => n + 1);
  useEffect(() => {
    const abort = new AbortController();
    void follow(of, abort.signal).then((links) => links && !abort.signal.aborted && setChain(links));
    return () => abort.abort();
  }, [of.jobId, of.runId, round]);
  useEvents("run", (runs) => runs.some((run) => run.job_id === of.jobId || run.run_id === of.runId || chain.some((link) => link.run?.run_id === run.run_id)) && again(), [of.jobId, of.runId, chain]);
  useEvents("job", (jobs) => jobs.some((job) => job.job_id === of.jobId) && again(), [of.jobId]);
  useEvents("queue", again);
  useEvents("worker", again);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || again(), LOOK_AGAIN);
    const stop = onResync(again);
    return () => (clearInterval(timer), stop());
  }, []);
  return chain;
}

async function follow(of: Of, signal: AbortSignal): Promise<Link[] | null> {
  const first = of.jobId
    ? await call("get", "/v1/jobs/{id}/explain", { path: { id: of.jobId }, signal })
    : await call("get", "/v1/runs/{id}/explain", { path: { id: of.runId! }, signal });
  if (!first.ok) return null;
  const links: Link[] = [{ why: first.value, run: null }];
  const seen = new Set<string>(of.runId ? [of.runId] : []);
  let holder = first.value.holder;
  while (holder && !seen.has(holder) && links.length < MOST_LINKS) {
    seen.add(holder);
    const [why, run] = await Promise.all([
      call("get", "/v1/runs/{id}/explain", { path: { id: holder }, signal }),
      call("get", "/v1/runs/{id}", { path: { id: holder }, signal }),
    ]);
    if (!why.ok || !run.ok) break; // another user's, or gone meanwhile
    links.push({ why: why.value, run: run.value });
    holder = why.value.holder;
  }
  return links;
}
