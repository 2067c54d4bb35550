import type { WholeRun } from "../../api/types";
import { Code } from "../../components/Code";
import { StateMark } from "../../components/StateMark";
import { Lane, placed, Timeline } from "../../components/Timeline";
import { isRunning } from "../../runs";
import { stateOf } from "../../states";
import { duration, exact, second, zoneName } from "../../time";
import { barsOf, type Bar } from "./bars";

const MOST_LANES = 12; // the newest
const ROOM_FOR_WORDS = 0.12; // of the axis

/** Attempts as bars over time, with what was between them, and the error of each. */
export function Attempts({ run }: { run: WholeRun }) {
  const bars = barsOf(run, isRunning(run) ? second.value : 0);
  if (!bars.length) return null;
  const shown = bars.slice(-MOST_LANES);
  const from = shown[0]!.waitedFrom;
  const to = Math.max(shown[shown.length - 1]!.to, from + 1);
  const failures = bars.filter((bar) => bar.attempt?.error_type || bar.attempt?.error_message).reverse();
  return (
    <section aria-label="Attempts" class="attempts">
      <div class="section-head"><h2>Attempts</h2>{bars.length > shown.length && <span class="faint">the last {shown.length} of {run.attempt_number}</span>}</div>
      <Timeline label="Attempts over time" from={from} to={to}>{shown.map((bar) => <Gantt key={bar.number} bar={bar} from={from} to={to} />)}</Timeline>
      {failures.map((bar, index) => <Failure key={bar.number} bar={bar} isOpen={index === 0 && run.status !== "succeeded"} />)}
    </section>
  );
}

function Gantt({ bar, from, to }: { bar: Bar; from: number; to: number }) {
  const { tone, word } = stateOf(bar.state);
  const took = duration(bar.took);
  const waited = bar.from - bar.waitedFrom;
  const before = bar.number === 1 ? "waited" : "backoff";
  return (
    <Lane name={<span class="attempt-name"><span class="number">{bar.number}</span> <StateMark state={bar.state} /> <span class="number faint">{took}</span></span>}>
      {waited > 0 && <span class="event gap quiet" style={placed(bar.waitedFrom, from, to, bar.from)} title={`${before} ${duration(waited)}`}>{waited > (to - from) * ROOM_FOR_WORDS && <span class="gap-word">{before} {duration(waited)}</span>}</span>}
      <span class={`event ${tone} is-${bar.state}`} style={placed(bar.from, from, to, bar.to)} title={`attempt ${bar.number} ${word}, ${took}, from ${exact(bar.from, zoneName())}`} />
    </Lane>
  );
}

function Failure({ bar, isOpen }: { bar: Bar; isOpen: boolean }) {
  const attempt = bar.attempt!;
  return (
    <details class="failure" open={isOpen}>
      <summary><span>Attempt {bar.number}</span> <b class="error-type">{attempt.error_type}</b> <span class="failure-message">{attempt.error_message}</span></summary>
      {attempt.traceback ? <Code text={attempt.traceback} label={`Traceback of attempt ${bar.number}`} /> : <p class="faint">No traceback is kept: those of the newest three attempts are.</p>}
      {attempt.error_class && !attempt.error_class.startsWith("builtins.") && <p class="faint">{attempt.error_class}</p>}
    </details>
  );
}
