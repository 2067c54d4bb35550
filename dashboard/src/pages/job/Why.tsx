import { useEffect } from "preact/hooks";
import { useGet } from "../../api/use";
import { useEvents } from "../../live";
import { href } from "../../router";

const LOOK_AGAIN = 10_000; // ms: places in line and heartbeats send no events

/** Why the job has or has not run, in the API's words. */
export function Why({ jobId }: { jobId: string }) {
  const why = useGet("/v1/jobs/{id}/explain", { path: { id: jobId } });
  useEvents("run", (runs) => runs.some((run) => run.job_id === jobId) && why.reload(), [jobId]);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || why.reload(), LOOK_AGAIN);
    return () => clearInterval(timer);
  }, [jobId]);
  if (!why.data) return null;
  return (
    <p class="why">
      <b>Why:</b> {why.data.detail}
      {why.data.position !== null && <> Place in line: {why.data.position}.</>}
      {why.data.holder && <> <a href={href(`/runs/${why.data.holder}`)}>What blocks it</a></>}
    </p>
  );
}
