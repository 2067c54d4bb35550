// What live events change in a list of jobs. Jobs that no event is about stay the same objects.
import type { EndedRun, Job } from "../../api/types";
import type { JobEvent, RunEvent } from "../../live";

const ENDED = new Set(["succeeded", "dead", "cancelled", "expired"]);

export function withJobEvents(jobs: Job[], events: JobEvent[]): Job[] {
  const byId = new Map(events.map((event) => [event.job_id, event]));
  return jobs.map((job) => {
    const event = byId.get(job.job_id);
    return event ? { ...job, name: event.name, status: event.status as Job["status"], next_run_at: event.next_run_at, version: event.version } : job;
  });
}

export function withRunEvents(jobs: Job[], events: RunEvent[], most: number): Job[] {
  const byJob = new Map<string, RunEvent[]>();
  for (const event of events) byJob.set(event.job_id, [...(byJob.get(event.job_id) ?? []), event]);
  return jobs.map((job) => (byJob.get(job.job_id) ?? []).reduce((changed, run) => withRun(changed, run, most), job));
}

function withRun(job: Job, run: RunEvent, most: number): Job {
  const isOlder = job.last_run && (run.start_time ?? "") < (job.last_run.start_time ?? "");
  const last = isOlder ? job.last_run : { ...job.last_run, ...run };
  const recent = job.recent ?? [];
  const isNew = ENDED.has(run.status) && !recent.some((one) => one.run_id === run.run_id);
  return { ...job, last_run: last as Job["last_run"], recent: isNew ? [run as unknown as EndedRun, ...recent].slice(0, most) : recent };
}
