import { Lane, placed, Timeline } from "../../components/Timeline";
import { stateOf } from "../../states";
import { clock, exact, now, zoneName } from "../../time";
import type { Coming } from "./load";
import type { LaneOf } from "./useLanes";

type Props = {
  lanes: LaneOf[];
  total: LaneOf;
  step: number;
  from: number;
  to: number;
  zone: string | undefined;
  /** What clocks move or repeat. */
  moved: Coming[];
  by: "task" | "queue";
  onWindow: (from: number, to: number) => void;
};

/** How much comes when: all of it above, then by task or queue, on one axis with two clocks. */
export function Lanes({ lanes, total, step, from, to, zone, moved, by, onWindow }: Props) {
  const shared = { step, from, to, onWindow };
  return (
    <Timeline label={`Runs to come by ${by}`} from={from} to={to} zone={zone}>
      <Lane name={<b>all</b>}><Bars lane={total} {...shared} isTall /></Lane>
      {lanes.map((lane) => (
        <Lane key={lane.name} name={<span title={lane.name}>{lane.name}</span>}>
          <Bars lane={lane} {...shared} />
          {moved.filter((run) => run[by] === lane.name).map((run) => <Moved key={run.job_id + run.at} run={run} from={from} to={to} />)}
        </Lane>
      ))}
    </Timeline>
  );
}

type Shared = { lane: LaneOf; step: number; from: number; to: number; onWindow: (from: number, to: number) => void; isTall?: boolean };

/** A bar for each step; a click on one looks closer. */
function Bars({ lane, step, from, to, onWindow, isTall }: Shared) {
  const most = Math.max(1, ...lane.buckets.map((bucket) => bucket.n));
  return (
    <div class={isTall ? "bars is-tall" : "bars"}>
      {lane.countedUntil !== null && lane.countedUntil < to && <span class="uncounted" style={placed(Math.max(lane.countedUntil, from), from, to, to)} title={`Counted whole until ${exact(lane.countedUntil, zoneName())}: from there on there is more`} />}
      {lane.buckets.map(({ at, n, at_least }) => (
        <button
          key={at}
          type="button"
          tabIndex={-1}
          class={at_least ? "bar is-least" : "bar"}
          style={{ ...placed(Math.max(at, from), from, to, Math.min(at + step, to)), height: `${20 + (80 * n) / most}%` }}
          title={`${n.toLocaleString("en")}${at_least ? " or more" : ""} ${n === 1 ? "run" : "runs"}, from ${exact(at, zoneName())}`}
          aria-label={`${lane.name}: ${n}${at_least ? " or more" : ""} from ${clock(at, zoneName(), now())}. Look closer`}
          onClick={() => onWindow(at, at + step)}
        />
      ))}
    </div>
  );
}

function Moved({ run, from, to }: { run: Coming; from: number; to: number }) {
  const at = Date.parse(run.at);
  return <span class="moved warn" style={placed(at, from, to)} title={`${run.job_name ?? run.task}: ${run.note}`}><span aria-hidden="true">{stateOf("late").glyph}</span><span class="for-readers">{run.job_name ?? run.task}: {run.note}</span></span>;
}
