import type { Signal } from "@preact/signals";
import type { BulkOf, Job } from "../../api/types";
import { askBulk } from "../../components/Bulk";
import { Button } from "../../components/Button";
import { callJob, labelOf } from "../../names";
import { can } from "../../session";

const ACTIONS: { action: BulkOf["action"]; verb: string; isDangerous?: boolean }[] = [
  { action: "pause", verb: "Pause" },
  { action: "resume", verb: "Resume" },
  { action: "run", verb: "Run" },
  { action: "cancel", verb: "Cancel", isDangerous: true },
];

type Props = { jobs: Job[]; chosen: Signal<ReadonlySet<string>>; filter: Record<string, string | undefined> | null };

/** What can be done with the chosen jobs, or with all that match the filters, also those that are not shown. */
export function BulkBar({ jobs, chosen, filter }: Props) {
  const ids = jobs.map((job) => job.job_id).filter((id) => chosen.value.has(id));
  const byFilter = filter && !filter.health ? filter : null; // a bulk takes no health
  if (!can("jobs") || (!ids.length && !byFilter)) return null;
  const nameOf = (id: string): string | undefined => jobs.filter((job) => job.job_id === id).map((job) => labelOf(callJob(job)))[0];
  const clear = (): void => void (chosen.value = new Set());
  const act = (action: BulkOf["action"], verb: string, isDangerous?: boolean): Promise<void> => {
    const of = { action, ...(ids.length ? { ids } : { filter: defined(byFilter!) }) } as BulkOf;
    return askBulk({ of, verb, cli: `jobs ${action}`, nouns: ["job", "jobs"], isDangerous, nameOf, after: clear });
  };
  return (
    <div class="bulk-bar" role="toolbar" aria-label="Act on many jobs">
      <span>{ids.length ? `${ids.length} chosen` : "All that match"}</span>
      {ACTIONS.map(({ action, verb, isDangerous }) => (
        <Button key={action} kind={isDangerous ? "danger" : "plain"} changes="jobs" onClick={() => act(action, verb, isDangerous)}>{verb}</Button>
      ))}
      {ids.length > 0 && <Button kind="quiet" onClick={clear}>Clear</Button>}
    </div>
  );
}

function defined(filter: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(filter).filter((pair): pair is [string, string] => !!pair[1]));
}
