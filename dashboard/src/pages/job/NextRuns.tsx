import { useGet } from "../../api/use";
import type { Job } from "../../api/types";
import { Occurrences } from "../../components/Occurrences";
import { useJobRuns } from "./useJobRuns";

/** The next ten runs, on both clocks. */
export function NextRuns({ job }: { job: Job }) {
  const next = useGet("/v1/upcoming", { query: { job_id: job.job_id, limit: 10 } });
  useJobRuns(job.job_id, next.reload);
  return (
    <section>
      <h2>Next runs</h2>
      {job.status === "paused" && <p class="faint">None: the job is paused.</p>}
      {job.status !== "paused" && next.data && !next.data.upcoming.length && <p class="faint">None: the schedule has come to its end.</p>}
      {next.data && next.data.upcoming.length > 0 && <Occurrences label="Next runs" occurrences={next.data.upcoming} zone={job.schedule.timezone} />}
    </section>
  );
}
