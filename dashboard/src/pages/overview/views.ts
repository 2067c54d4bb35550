// From the call that a problem names to the page that shows it.

export type View = { path: string; params: Record<string, string>; label: string };

const PAGES: Record<string, [path: string, label: string]> = {
  "dead-letters": ["/failures", "Failures"],
  runs: ["/runs", "Its runs"],
  workers: ["/queues", "Workers"],
  queues: ["/queues", "Queues"],
  processes: ["/admin/server", "Processes"],
  findings: ["/admin/findings", "Findings"],
  stats: ["/jobs", "Jobs"],
};

export function viewOf(link: string): View | null {
  const url = new URL(link, "http://server");
  const page = PAGES[url.pathname.split("/")[2] ?? ""];
  const job = url.searchParams.get("job_id");
  if (job) return { path: `/jobs/${job}`, params: {}, label: "The job" };
  if (!page) return null;
  const params = page[0] === "/runs" ? Object.fromEntries(url.searchParams) : {};
  return { path: page[0], params, label: page[1] };
}

/** The queue that a problem is about. */
export function queueOf(link: string): string | null {
  return new URL(link, "http://server").searchParams.get("queue");
}
