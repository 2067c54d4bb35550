// Where the lines of a time axis are: whole hours, days and so on, on the clock of a zone.
import { parts } from "../times";

export type Tick = { at: number; text: string; isDay: boolean };
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const STEPS = [1_000, 5_000, 15_000, 30_000, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 7 * 24 * HOUR, 30 * 24 * HOUR];

/** At most `most` ticks from `from` up to `to`. Around daylight saving they stay on whole hours of the zone. */
export function ticksOf(from: number, to: number, zone: string, most: number): Tick[] {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? Math.ceil((to - from) / most / (24 * HOUR)) * 24 * HOUR;
  const ticks: Tick[] = [];
  const pace = Math.min(step, HOUR); // offsets change by half hours at the least
  let day = "";
  for (let at = Math.ceil(from / Math.min(pace, 15 * MINUTE)) * Math.min(pace, 15 * MINUTE); at < to; at += Math.min(pace, 15 * MINUTE)) {
    const p = parts(at, zone);
    const sinceMidnight = (Number(p.hour) * 60 + Number(p.minute)) * MINUTE + Number(p.second) * 1_000;
    const isDay = sinceMidnight === 0;
    if (step < 24 * HOUR ? sinceMidnight % step : !isDay || dayNumber(p) % Math.round(step / (24 * HOUR))) continue;
    const today = `${p.month}-${p.day}`;
    ticks.push({ at, text: isDay || step >= 24 * HOUR ? today : step < MINUTE ? `${p.hour}:${p.minute}:${p.second}` : `${p.hour}:${p.minute}`, isDay: today !== day && isDay });
    day = today;
  }
  return ticks;
}

function dayNumber(p: { year: string; month: string; day: string }): number {
  return Math.floor(Date.UTC(Number(p.year), Number(p.month) - 1, Number(p.day)) / (24 * HOUR));
}
