import type { Schemas } from "../../api/types";
import { useGet, type Loaded } from "../../api/use";
import { When } from "../../components/When";
import { href } from "../../router";
import { isAdmin } from "../../session";
import { duration } from "../../time";
import { worstLag } from "./series";

type Answer = Schemas["SeriesAnswer"];
const ENDS = ["succeeded", "dead", "cancelled", "expired"];

/** All is well: one line with numbers. `recent`: those of the last hour, or of the last day, if the page has them. */
export function Calm({ next, recent }: { next: Schemas["UpcomingRun"] | undefined; recent: Loaded<Answer> | null }) {
  const { ended, since, lag } = useHourNumbers(recent);
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
function useHourNumbers(recent: Loaded<Answer> | null) {
  const what = (isAdmin.value ? ["lag", ...ENDS] : ENDS).join(",");
  const asked = useGet(recent ? null : "/v1/stats/series", { query: isAdmin.value ? { what } : { what, step: "1h" } });
  const data = (recent ?? asked).data;
  const ended = data ? data.series.filter((one) => ENDS.includes(one.what)).reduce((sum, one) => sum + one.total, 0) : null;
  return { ended, since: isAdmin.value ? "hour" : "day", lag: data ? worstLag(data.series, data.edges.lag ?? []) : null };
}
