// Where the lines of a time axis are: whole hours, days and so on, on the clock of a zone.
import { parts } from "../times";

export type Tick = { at: number; text: string; isDay: boolean };
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [1_000, 5_000, 15_000, 30_000, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY, 30 * DAY];

/** At most `most` ticks from `from` up to `to`. Around daylight saving they stay on whole hours of the zone. */
export function ticksOf(from: number, to: number, zone: string, most: number): Tick[] {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? Math.ceil((to - from) / most / DAY) * DAY;
  return step < DAY ? timesOf(from, to, zone, step) : daysOf(from, to, zone, step / DAY);
}

function timesOf(from: number, to: number, zone: string, step: number): Tick[] {
  const ticks: Tick[] = [];
  const pace = Math.min(step, 15 * MINUTE); // offsets are multiples of it
  let day = "";
  for (let at = Math.ceil(from / pace) * pace; at < to; at += pace) {
    const p = parts(at, zone);
    const sinceMidnight = (Number(p.hour) * 60 + Number(p.minute)) * MINUTE + Number(p.second) * 1_000;
    const isDay = sinceMidnight === 0;
    if (sinceMidnight % step) continue;
    const today = `${p.month}-${p.day}`;
    ticks.push({ at, text: isDay ? today : step < MINUTE ? `${p.hour}:${p.minute}:${p.second}` : `${p.hour}:${p.minute}`, isDay: today !== day && isDay });
    day = today;
  }
  return ticks;
}

/** Every so many midnights of the zone. No more is looked at than is drawn: a window may have centuries. */
function daysOf(from: number, to: number, zone: string, days: number): Tick[] {
  const ticks: Tick[] = [];
  const isLong = to - from > 300 * DAY;
  for (let day = Math.ceil((localOf(from, zone) / DAY) / days) * days; ; day += days) {
    const at = midnight(day, zone);
    if (at >= to) return ticks;
    const p = parts(at, zone);
    if (at >= from) ticks.push({ at, text: isLong ? `${p.year}-${p.month}` : `${p.month}-${p.day}`, isDay: true });
  }
}

function midnight(day: number, zone: string): number {
  const about = 2 * day * DAY - localOf(day * DAY, zone); // by the offset of another time of that day
  return about + day * DAY - localOf(about, zone);
}

/** What the clock of the zone shows, as if it were UTC. */
function localOf(at: number, zone: string): number {
  const p = parts(at, zone);
  return Date.UTC(Number(p.year), Number(p.month) - 1, Number(p.day), Number(p.hour), Number(p.minute), Number(p.second));
}
