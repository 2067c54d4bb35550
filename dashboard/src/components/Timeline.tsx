import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { second, zoneName } from "../time";
import { changeWords, clockChanges, type ClockChange } from "./clockchanges";
import { ticksOf } from "./ticks";

type Props = {
  label: string;
  /** ms since 1970 */
  from: number;
  to: number;
  /** The schedule's zone: with another zone than the viewer's, a second ruler shows its clock. */
  zone?: string;
  /** Lanes: <Lane>s with things placed by `placed`. */
  children: ComponentChildren;
};

const PER_TICK = 80; // px
const EDGE = 0.04; // of the width: there is no space for a text there

/** Lanes over one time axis, with a line for now, and a second clock if there is one. */
export function Timeline({ label, from, to, zone, children }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 600));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  const own = zoneName();
  const most = Math.max(2, Math.floor(width / PER_TICK));
  return (
    <div class="timeline" ref={box} role="group" aria-label={label}>
      <Ruler from={from} to={to} zone={own} most={most} />
      {zone && zone !== own && <Ruler from={from} to={to} zone={zone} most={most} />}
      <div class="lanes">
        {children}
        <div class="over-lanes">
          {[...new Set([own, zone ?? own])].flatMap((one) => clockChanges(one, from, to)).map((change) => <Turn key={change.zone + change.at} change={change} from={from} to={to} />)}
          {second.value > from && second.value < to && <span class="now-line" style={placed(second.value, from, to)} aria-hidden="true" />}
        </div>
      </div>
    </div>
  );
}

function Ruler({ from, to, zone, most }: { from: number; to: number; zone: string; most: number }) {
  return (
    <div class="ruler" aria-hidden="true">
      <span class="ruler-zone">{zone}</span>
      {ticksOf(from, to, zone, most).filter((tick) => tick.at < to - EDGE * (to - from)).map((tick) => (
        <span key={tick.at} class={tick.isDay ? "tick is-day" : "tick"} style={placed(tick.at, from, to)}>{tick.text}</span>
      ))}
    </div>
  );
}

/** Where clocks are set: a line where time is left out, a band over both turns of what comes twice. */
function Turn({ change, from, to }: { change: ClockChange; from: number; to: number }) {
  const isFold = change.by < 0;
  const edges = isFold ? [Math.max(change.at + change.by, from), Math.min(change.at - change.by, to)] : [change.at, change.at];
  return (
    <span class={isFold ? "turn is-fold" : "turn"} style={placed(edges[0]!, from, to, edges[1])} title={`${change.zone}: ${changeWords(change)}`}>
      <span class="turn-word">{change.zone}: {changeWords(change)}</span>
    </span>
  );
}

/** One row of a timeline. Give things in it the class `event` and `style={placed(at, from, to, until)}`. */
export function Lane({ name, children }: { name?: ComponentChildren; children: ComponentChildren }) {
  return (
    <div class="lane">
      {name && <span class="lane-name">{name}</span>}
      <div class="lane-body">{children}</div>
    </div>
  );
}

/** Where an instant is, and how wide it is until another, as a style. */
export function placed(at: number, from: number, to: number, until?: number): Record<string, string> {
  const share = (ms: number): number => ((ms - from) / (to - from)) * 100;
  const left = { left: `${share(at)}%` };
  return until === undefined ? left : { ...left, width: `${share(until) - share(at)}%` };
}
