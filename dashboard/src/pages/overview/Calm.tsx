import type { Schemas } from "../../api/types";
import { useGet } from "../../api/use";
import { When } from "../../components/When";
import { href } from "../../router";
import { isAdmin } from "../../session";
import { duration } from "../../time";
import { worstLag } from "./series";


/** All is well: one line with numbers. */
export function Calm({ next }: { next: Schemas["UpcomingRun"] | undefined }) {
  const { ended, since, lag } = useHourNumbers();
  return (
    <p class="calm good">
      <span class="glyph" aria-hidden="true">✓</span>
      <span>
        <strong>All well.</strong>
        {ended !== null && <> {ended.toLocaleString("en")} {ended === 1 ? "run" : "runs"} ended in the last {since}</>}
        {lag && <>, worst start lag {lag.isBeyond ? "more than" : "at most"} {duration(lag.ms)}</>}
        {ended !== null && "."}
        {next ? <> Next: <a href={href(`/jobs/${next.job_id}`)}>{next.job_name ?? next.task}</a> <When at={next.at} zone={next.timezone ?? undefined} focusable />.</> : " Nothing is to come."}
      </span>
    </p>
  );
}

/** What the calm line says: of the last hour, or of the last day, where only hours are kept. */
function useHourNumbers() {
  const what = isAdmin.value ? "lag,succeeded,dead,cancelled,expired" : "succeeded,dead,cancelled,expired";
  const answer = useGet("/v1/stats/series", { query: isAdmin.value ? { what } : { what, step: "1h" } });
  const series = answer.data?.series;
  const ended = series ? series.filter((one) => one.what !== "lag").reduce((sum, one) => sum + one.total, 0) : null;
  return { ended, since: isAdmin.value ? "hour" : "day", lag: series ? worstLag(series, answer.data!.edges.lag ?? []) : null };
}
