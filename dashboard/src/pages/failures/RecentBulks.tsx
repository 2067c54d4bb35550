import { useEffect } from "preact/hooks";
import { call } from "../../api/client";
import { useGet } from "../../api/use";
import type { Bulk, BulkOf } from "../../api/types";
import { askBulk, shownAction, unfinished } from "../../components/Bulk";
import { Button } from "../../components/Button";
import { Progress } from "../../components/Progress";
import { When } from "../../components/When";
import { second } from "../../time";
import { toast, words } from "../../toasts";

const RECENT = 3_600_000; // ms
const SHOWN = 3;

/** What was run again or discarded in the last hour: what they did, what they could not do, and how to go on. */
export function RecentBulks() {
  const bulks = useGet("/v1/bulk", { query: { limit: 20 } });
  useEffect(() => bulks.reload(), [unfinished.value.length]);
  const shown = (bulks.data?.bulks ?? []).filter((bulk) => bulk.of === "dead_letters" && isRecent(bulk)).slice(0, SHOWN);
  if (!shown.length) return null;
  return (
    <ul class="recent-bulks" aria-label="Run again or discarded in the last hour">
      {shown.map((bulk) => <Line key={bulk.bulk_id} bulk={unfinished.value.find((one) => one.bulk_id === bulk.bulk_id) ?? bulk} onChange={bulks.reload} />)}
    </ul>
  );
}

function isRecent(bulk: Bulk): boolean {
  return bulk.state === "running" || second.value - Date.parse(bulk.ended_at ?? bulk.created_at) < RECENT;
}

const VERBS: Record<string, [string, string]> = { requeue: ["Run again", "run again"], discard: ["Discard", "discarded"] };

function Line({ bulk, onChange }: { bulk: Bulk; onChange: () => void }) {
  const [verb, past] = VERBS[bulk.action] ?? [bulk.action, "done"];
  const isRunning = bulk.state === "running";
  const isCut = bulk.state === "stopped" || bulk.state === "failed";
  const stop = async (): Promise<void> => {
    const answer = await call("delete", "/v1/bulk/{id}", { path: { id: bulk.bulk_id } });
    if (!answer.ok) toast(words(answer.error), true);
    onChange();
  };
  const goOn = (): Promise<void> => askBulk({ of: { action: bulk.action, filter: bulk.filter, ...(bulk.payload_patch && { payload_patch: bulk.payload_patch }) } as BulkOf, verb: verb!, cli: `dead ${bulk.action}`, nouns: ["dead letter", "dead letters"], isDangerous: bulk.action === "discard", after: onChange });
  return (
    <li class={bulk.state === "failed" || bulk.refused ? "bad" : "quiet"}>
      <span><b>{bulk.payload_patch ? "Change and run again" : verb}</b> {isRunning ? "is running" : bulk.state} <When at={bulk.ended_at ?? bulk.created_at} /></span>
      {isRunning ? <Progress label={`Progress of ${shownAction(bulk)}`} done={bulk.done + bulk.refused} total={bulk.total} /> : <span><span class="number">{bulk.done.toLocaleString("en")}</span> {past}</span>}
      {bulk.refused > 0 && <details><summary>{bulk.refused} refused</summary><ul>{bulk.reasons.map((one) => <li key={one.id}><code>…{one.id.slice(-8)}</code> {one.reason}</li>)}</ul></details>}
      {bulk.why && <span>{bulk.why}</span>}
      {bulk.started_by && <span class="faint">by {bulk.started_by}</span>}
      {isRunning && <Button changes="letters" onClick={stop}>Stop</Button>}
      {isCut && bulk.filter && <Button changes="letters" onClick={goOn}>Go on with the rest</Button>}
    </li>
  );
}
