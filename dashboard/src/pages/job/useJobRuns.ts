import { useEffect, useState } from "preact/hooks";
import { useEvents } from "../../live";
import { useThrottled } from "../../refresh";
import { now } from "../../time";

const AT_MOST_EVERY = 2_000; // ms, for a job that runs all the time
const MINUTE = 60_000;

/** Calls back when a run of the job or the job changed, at once and not too often. */
export function useJobRuns(jobId: string, changed: () => void): void {
  const soon = useThrottled(changed, AT_MOST_EVERY);
  useEvents("run", (events) => events.some((one) => one.job_id === jobId) && soon(), [jobId]);
  useEvents("job", (events) => events.some((one) => one.job_id === jobId) && soon(), [jobId]);
}

/** The end of the present minute, for windows that end now without asking anew every second. */
export function useMinute(): number {
  const end = (): number => Math.ceil(now() / MINUTE) * MINUTE;
  const [minute, setMinute] = useState(end);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setMinute(end()), MINUTE / 6);
    return () => clearInterval(timer);
  }, []);
  return minute;
}
