import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useGet, usePaged } from "../../api/use";
import type { Job } from "../../api/types";
import { taskOptions } from "../../commands";
import { Empty } from "../../components/Empty";
import { Example } from "../../components/Example";
import { Filters, type Filter } from "../../components/Filters";
import { LookedBack } from "../../components/LookedBack";
import { PageHead } from "../../components/PageHead";
import { Table } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { useEvents } from "../../live";
import { callJob, labelOf } from "../../names";
import { useThrottled } from "../../refresh";
import { href, query } from "../../router";
import { can, isAdmin, ownOnly } from "../../session";
import { BulkBar } from "./BulkBar";
import { columnsOf } from "./columns";
import { withJobEvents, withRunEvents } from "./changes";

const RECENT = 20;
const FILTERS = ["status", "health", "name_prefix", "task", "tag", "queue"] as const;
const AT_MOST_EVERY = 1_000; // ms: several jobs are often created together

const chosen = signal<ReadonlySet<string>>(new Set());

/** What the URL asks for, as the API takes it. */
function wanted(): Record<string, string | undefined> {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.value.get(name) ?? undefined]));
  return { ...filters, user_id: ownOnly.value };
}

export default function Jobs() {
  const filter = wanted();
  const jobs = usePaged("/v1/jobs", { query: { ...(filter as object), recent: RECENT } }, (page) => page.jobs);
  const isFiltered = FILTERS.some((name) => filter[name]);
  useEffect(() => () => void (chosen.value = new Set()), [JSON.stringify(filter)]);
  useLive(jobs.items, jobs.update, jobs.reload);
  const columns = useMemo(() => columnsOf(isAdmin.value && !ownOnly.value), [isAdmin.value, ownOnly.value]);
  return (
    <>
      <PageHead title="Jobs">{can("jobs") && <a class="button primary" href={href("/new")}>New job</a>}</PageHead>
      <Filters filters={useFilters()} />
      {jobs.error && <Trouble error={jobs.error} onAgain={jobs.reload} />}
      {jobs.items.length > 0 && (
        <Table label="Jobs" columns={columns} rows={jobs.items} keyOf={idOf} nameOf={(job) => labelOf(callJob(job))} chosen={can("jobs") ? chosen : undefined} isStale={jobs.loading} onEnd={() => jobs.lookedBackTo || jobs.more()} />
      )}
      {!jobs.loading && !jobs.error && !jobs.items.length && !jobs.hasMore && <Nothing isFiltered={isFiltered} />}
      <LookedBack to={jobs.lookedBackTo} hasMore={jobs.hasMore} onMore={jobs.more} />
      <BulkBar jobs={jobs.items} chosen={chosen} filter={isFiltered ? filter : null} />
    </>
  );
}

function idOf(job: Job): string {
  return job.job_id;
}

function useFilters(): Filter[] {
  const tasks = useGet("/v1/tasks");
  return [
    { param: "name_prefix", label: "Name begins with" },
    { param: "status", label: "Status", choices: ["active", "paused", "finished", "cancelled"] },
    { param: "health", label: "Health", choices: ["failing", "late", "never_ran"], one: true },
    { param: "task", label: "Task", suggestions: tasks.data?.tasks.map((task) => task.name) },
    { param: "tag", label: "Tag" },
    { param: "queue", label: "Queue" },
  ];
}

function useLive(items: Job[], update: (change: (jobs: Job[]) => Job[]) => void, reload: () => void): void {
  const soon = useThrottled(reload, AT_MOST_EVERY);
  useEvents("run", (runs) => update((jobs) => withRunEvents(jobs, runs, RECENT)), []);
  useEvents("job", (events) => {
    update((jobs) => withJobEvents(jobs, events));
    const known = new Set(items.map(idOf));
    if (events.some((one) => !known.has(one.job_id) && one.version === 1)) soon();
  }, [items]);
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No job matches these filters." command="oncue jobs list" />;
  return <Example title="There are no jobs yet." command={(example) => `oncue jobs create ${taskOptions(example)} --schedule 'every 30s' --name example`}>Create one here, or with the command line:</Example>;
}
