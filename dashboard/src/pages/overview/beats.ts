// Pulses averaged over ten seconds.
import type { PulseEvent } from "../../live";

export const PULSE_STEP = 10_000; // ms
const KEEP = 3_600_000;

export type Beat = { at: number; n: number; started: number; due: number; running: number };

export function withPulse(beats: Beat[], pulse: PulseEvent): Beat[] {
  const at = Math.floor(Date.parse(pulse.at) / PULSE_STEP) * PULSE_STEP;
  const last = beats.at(-1);
  const others = last?.at === at ? beats.slice(0, -1) : beats;
  const old = last?.at === at ? last : { at, n: 0, started: 0, due: 0, running: 0 };
  const mean = (before: number, value: number): number => (before * old.n + value) / (old.n + 1);
  const beat = { at, n: old.n + 1, started: mean(old.started, pulse.started_per_second ?? 0), due: Math.max(old.due, pulse.due), running: Math.max(old.running, pulse.running) };
  return [...others.filter((one) => one.at > at - KEEP), beat];
}
