import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/client";
import type { Lookup } from "../api/types";
import { Combobox, type Option } from "../components/Combobox";
import { Dialog } from "../components/Dialog";
import { Name } from "../components/Name";
import { StateMark } from "../components/StateMark";
import { callJob } from "../names";
import { RAIL } from "../pages/pages";
import { go, href } from "../router";
import { stateOfJob } from "../states";

export const isSearchOpen = signal(false);
const AFTER_TYPING = 120; // ms

/** Finds jobs, runs, workers, tasks, queues and tags by what people type. */
export function Search() {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Lookup | null>(null);
  useEffect(() => {
    const wanted = text.trim();
    if (!wanted) return setFound(null);
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const answer = await call("get", "/v1/lookup", { query: { q: wanted }, signal: abort.signal });
      if (answer.ok) setFound(answer.value);
    }, AFTER_TYPING);
    return () => (clearTimeout(timer), abort.abort());
  }, [text]);
  const close = (): void => void (isSearchOpen.value = false);
  const pick = (address: string): void => (close(), go(address));
  const options = found ? optionsOf(found) : pagesLike(text);
  return (
    <Dialog title="Search" onClose={close} wide>
      <Combobox label="Search" placeholder="A name, key, id or the end of one, task, queue, tag" autoFocus text={text} onText={setText} options={options} onPick={pick}
        note={text.trim() && found && !options.length ? "Nothing has this name, or begins with it." : undefined} />
    </Dialog>
  );
}

function optionsOf(found: Lookup): Option[] {
  const named = (group: string, names: { name: string }[], address: (name: string) => string): Option[] =>
    names.map(({ name }) => ({ key: address(name), group, label: name }));
  return [
    ...found.jobs.map((job) => ({ key: href(`/jobs/${job.job_id}`), group: "Jobs", label: <><StateMark state={stateOfJob({ ...job, status: job.status ?? "active" })} short /> <Name of={callJob(job)} /> {(job.name ?? job.key) && <span class="faint">{job.task}</span>}</> })),
    ...found.runs.map((run) => ({ key: href(`/runs/${run.run_id}`), group: "Runs", label: <><StateMark state={run.status ?? "scheduled"} short /> {run.job_name ?? run.task} <code class="faint">{run.run_id}</code></> })),
    ...found.workers.map((worker) => ({ key: href(`/workers/${worker.worker_id}`), group: "Workers", label: worker.name ?? worker.worker_id })),
    ...named("Tasks", found.tasks, (task) => href("/jobs", { task })),
    ...named("Queues", found.queues, (queue) => href(`/queues/${encodeURIComponent(queue)}`)),
    ...named("Tags", found.tags, (tag) => href("/jobs", { tag })),
  ];
}

function pagesLike(text: string): Option[] {
  const wanted = text.trim().toLowerCase();
  return RAIL.filter((item) => item.label.toLowerCase().includes(wanted)).map((item) => ({ key: href(item.path), group: "Pages", label: item.label }));
}
