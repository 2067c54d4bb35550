import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { second, zoneName } from "../time";
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
        {second.value > from && second.value < to && <span class="now-line" style={placed(second.value, from, to)} aria-hidden="true" />}
      </div>
    </div>
  );
}

function Ruler({ from, to, zone, most }: { from: number; to: number; zone: string; most: number }) {
  return (
    <div class="ruler" aria-hidden="true">
      <span class="ruler-zone">{zone}</span>
      {ticksOf(from, to, zone, most).map((tick) => (
        <span key={tick.at} class={tick.isDay ? "tick is-day" : "tick"} style={placed(tick.at, from, to)}>{tick.text}</span>
      ))}
    </div>
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
