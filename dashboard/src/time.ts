// Times as people read them: relative, with the exact time and its zone on hover. 24 hours, always.
import { computed, signal } from "@preact/signals";
import { query, setQuery } from "./router";

/** Whose clock is shown: the viewer's, UTC, or that of each schedule. */
export type Zone = "local" | "utc" | "schedule";
export const ZONES: Zone[] = ["local", "utc", "schedule"];
const KEPT = "oncue.zone";

export const zone = computed<Zone>(() => {
  const wanted = query.value.get("zone") ?? localStorage.getItem(KEPT);
  return ZONES.includes(wanted as Zone) ? (wanted as Zone) : "local";
});

export function setZone(wanted: Zone): void {
  localStorage.setItem(KEPT, wanted);
  setQuery({ zone: wanted });
}

export const localZone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** The IANA name of the zone to show a time in. `ofSchedule`: the zone of the schedule that the time belongs to. */
export function zoneName(ofSchedule?: string): string {
  if (zone.value === "schedule" && ofSchedule) return ofSchedule;
  return zone.value === "local" ? localZone : "UTC";
}

let skew = 0;
/** Follow the server's clock: it decides when runs start. */
export function setServerTime(time: string): void {
  skew = Date.parse(time) - Date.now();
}

export function now(): number {
  return Date.now() + skew;
}

/** The present time in ms; whoever reads it is shown anew every second. */
export const second = signal(now());

export function startClock(): void {
  setInterval(() => document.hidden || (second.value = now()), 1_000);
  document.addEventListener("visibilitychange", () => (second.value = now()));
}

export { clock, duration, exact, parts, readTime, relative, shortDuration } from "./times";
