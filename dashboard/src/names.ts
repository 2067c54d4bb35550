// What jobs and runs are called: by their name or key; without one by their task, and the end of the id tells them apart.

type Job = { job_id: string; name?: string | null; key?: string | null; task?: string | null };
type Run = { run_id: string; job_name?: string | null; job_key?: string | null; task?: string | null };

/** `id`: shown beside a title that others have, too. */
export type Called = { title: string; id?: string };

export function callJob(job: Job): Called {
  return called(job.name ?? job.key, job.task, job.job_id);
}

export function callRun(run: Run): Called {
  return called(run.job_name ?? run.job_key, run.task, run.run_id);
}

function called(name: string | null | undefined, task: string | null | undefined, id: string): Called {
  if (name) return { title: name };
  return task ? { title: task, id } : { title: shortId(id) };
}

/** In one line of text: "charge …03eed48a". */
export function labelOf({ title, id }: Called): string {
  return id ? `${title} ${shortId(id)}` : title;
}

export function jobName(job: Job): string {
  return callJob(job).title;
}

export function runName(run: Run): string {
  return callRun(run).title;
}

/** The end of an id tells objects apart: ids of the same minute begin alike. */
export function shortId(id: string): string {
  return `…${id.slice(-8)}`;
}
