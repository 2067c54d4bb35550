// When a zone's clocks are set, found by looking at its offsets.
import { parts } from "../times";

/** `by`: ms that clocks go forward; negative: they go back, and that time comes twice. */
export type ClockChange = { at: number; by: number; zone: string };

const HOUR = 3_600_000;
const LOOK_EVERY = 6 * HOUR; // no zone changes twice within it
const MOST = 40;
const LONGEST = 3 * 366 * 24 * HOUR; // in a longer window nobody would see an hour

export function clockChanges(zone: string, from: number, to: number): ClockChange[] {
  const found: ClockChange[] = [];
  if (zone === "UTC" || to - from > LONGEST) return found;
  for (let start = from; start < to && found.length < MOST; start += LOOK_EVERY) {
    const end = Math.min(start + LOOK_EVERY, to);
    const by = offset(end, zone) - offset(start, zone);
    if (by) found.push({ at: turn(zone, start, end), by, zone });
  }
  return found;
}

/** "02:00–03:00 does not exist", "02:00–03:00 comes twice" */
export function changeWords({ at, by, zone }: ClockChange): string {
  const before = at + offset(at - 1, zone);
  const edge = (ms: number): string => new Date(ms).toISOString().slice(11, 16);
  return by > 0 ? `${edge(before)}–${edge(before + by)} does not exist` : `${edge(before + by)}–${edge(before)} comes twice`;
}

/** How far the zone is ahead of UTC, in ms. */
function offset(at: number, zone: string): number {
  const whole = Math.floor(at / 1_000) * 1_000;
  const p = parts(whole, zone);
  return Date.UTC(Number(p.year), Number(p.month) - 1, Number(p.day), Number(p.hour), Number(p.minute), Number(p.second)) - whole;
}

function turn(zone: string, start: number, end: number): number {
  const before = offset(start, zone);
  let low = Math.floor(start / 1_000);
  let high = Math.ceil(end / 1_000);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offset(middle * 1_000, zone) === before) low = middle;
    else high = middle;
  }
  return high * 1_000;
}
