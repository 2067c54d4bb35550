import type { Signal } from "@preact/signals";
import type { BulkOf, Run } from "../../api/types";
import { askBulk } from "../../components/Bulk";
import { Button } from "../../components/Button";
import { runName, shortId } from "../../names";
import { FINAL, isLive, LIVE } from "../../runs";
import { can } from "../../session";
import type { Wanted } from "./changes";

type Props = { runs: Run[]; chosen: Signal<ReadonlySet<string>>; wanted: Wanted; isInBox: boolean };
const OF_A_BULK = new Set(["status", "job_id", "task", "queue", "user_id"]); // what a bulk can filter by

/** Cancels live runs, runs ended ones again: those that are chosen, or all that match, also those that are not shown. */
export function BulkBar({ runs, chosen, wanted, isInBox }: Props) {
  const some = runs.filter((run) => chosen.value.has(run.run_id));
  const filter = isInBox ? null : filterOf(wanted);
  if (!can("runs") || (!some.length && !filter)) return null;
  const clear = (): void => void (chosen.value = new Set());
  const known = new Map(runs.map((run) => [run.run_id, `${runName(run)} ${shortId(run.run_id)}`]));
  const act = (action: "retry" | "cancel", verb: string, what: Pick<BulkOf, "ids" | "filter">): Promise<void> =>
    askBulk({ of: { action, of: "runs", ...what } as BulkOf, verb, cli: `runs ${action}`, nouns: ["run", "runs"], isDangerous: action === "cancel", nameOf: (id) => known.get(id), after: clear });
  const what = (statuses: string[], isFit: (run: Run) => boolean): Pick<BulkOf, "ids" | "filter"> | null => {
    if (some.length) return some.some(isFit) ? { ids: some.filter(isFit).map((run) => run.run_id) } : null;
    const wantedNow = (filter!.status?.split(",") ?? statuses).filter((status) => statuses.includes(status));
    return wantedNow.length ? { filter: { ...filter!, status: wantedNow.join(",") } as BulkOf["filter"] } : null;
  };
  const ended = what(FINAL, (run) => !isLive(run));
  const live = what(LIVE, isLive);
  return (
    <div class="bulk-bar" role="toolbar" aria-label="Act on many runs">
      <span>{some.length ? `${some.length} chosen` : "All that match"}</span>
      {ended && <Button changes="runs" onClick={() => act("retry", "Run again", ended)}>Run again{ended.ids && some.length > ended.ids.length ? ` ${ended.ids.length} ended` : ""}</Button>}
      {live && <Button kind="danger" changes="runs" onClick={() => act("cancel", "Cancel", live)}>Cancel{live.ids && some.length > live.ids.length ? ` ${live.ids.length} live` : ""}</Button>}
      {some.length > 0 && <Button kind="quiet" onClick={clear}>Clear</Button>}
    </div>
  );
}

/** Null: nothing is filtered, or by something that a bulk cannot filter by; then rows can be chosen. */
function filterOf(wanted: Wanted): Record<string, string> | null {
  const set = Object.entries(wanted).filter((pair): pair is [string, string] => !!pair[1]);
  const isFiltered = set.some(([name]) => name !== "user_id"); // that is the scope of the whole page
  return isFiltered && set.every(([name]) => OF_A_BULK.has(name)) ? Object.fromEntries(set) : null;
}
