// Pure functions of instants (ms since 1970) and durations (ms).

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "38 ms", "1.2 s", "4 min 3 s", "2 h 5 min", "3 d 4 h" */
export function duration(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${trim((ms / SECOND).toFixed(1))} s`;
  if (ms < MINUTE) return `${Math.round(ms / SECOND)} s`;
  if (ms < HOUR) return pair(ms, MINUTE, "min", SECOND, "s");
  if (ms < DAY) return pair(ms, HOUR, "h", MINUTE, "min");
  return pair(ms, DAY, "d", HOUR, "h");
}

/** The larger unit only, for narrow places: "32 min". */
export function shortDuration(ms: number): string {
  return duration(ms).split(" ").slice(0, 2).join(" ");
}

const LAST = Date.UTC(2200, 0); // the API takes no later time

/** The instant that a text of an address means, ms or RFC 3339; null for all else, which anybody can write there. */
export function readTime(text: string | null): number | null {
  const at = /^\d+$/.test(text ?? "") ? Number(text) : /^\d{4}-\d\d-/.test(text ?? "") ? Date.parse(text!) : NaN;
  return at > 0 && at < LAST ? at : null;
}

const UNITS: Record<string, number> = { s: SECOND, m: MINUTE, h: HOUR, d: DAY };

/** "5m", as the API writes a step, in ms; 0 for other texts. */
export function spanMs(text: string): number {
  const found = /^(\d+)([smhd])$/.exec(text);
  return found ? Number(found[1]) * UNITS[found[2]!]! : 0;
}

function trim(text: string): string {
  return text.replace(/\.0$/, "");
}

function pair(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const whole = Math.floor(ms / large);
  const rest = Math.floor((ms % large) / small);
  return rest ? `${whole} ${largeName} ${rest} ${smallName}` : `${whole} ${largeName}`;
}

/** "in 4 min", "3 s ago", "now" */
export function relative(at: number, now: number): string {
  const far = Math.abs(at - now);
  if (far < SECOND) return "now";
  const text = coarse(far);
  return at > now ? `in ${text}` : `${text} ago`;
}

function coarse(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h`;
  if (ms < 60 * DAY) return `${Math.floor(ms / DAY)} d`;
  return ms < 730 * DAY ? `${Math.floor(ms / (30 * DAY))} months` : `${Math.floor(ms / (365 * DAY))} years`;
}

export type Parts = { year: string; month: string; day: string; hour: string; minute: string; second: string; offset: string };

const formats = new Map<string, Intl.DateTimeFormat>();

/** The fields of an instant on the clock of a zone; `offset` is like "UTC+2". */
export function parts(at: number, zone: string): Parts {
  let format = formats.get(zone);
  if (!format) formats.set(zone, (format = makeFormat(zone)));
  const found = Object.fromEntries(format.formatToParts(at).map((part) => [part.type, part.value]));
  return { ...found, offset: (found.timeZoneName ?? "GMT").replace("GMT", "UTC").replace(/\+0$/, "") } as unknown as Parts;
}

function makeFormat(timeZone: string): Intl.DateTimeFormat {
  const two = "2-digit" as const;
  const fields = { year: "numeric", month: two, day: two, hour: two, minute: two, second: two } as const;
  try {
    return new Intl.DateTimeFormat("en-GB", { ...fields, hourCycle: "h23", timeZone, timeZoneName: "shortOffset" });
  } catch {
    return makeFormat("UTC"); // a zone that this browser does not know
  }
}

/** "2026-11-17 20:04:25.123 Europe/Berlin (UTC+1)" */
export function exact(at: number, zone: string): string {
  const p = parts(at, zone);
  const ms = String(((at % SECOND) + SECOND) % SECOND).padStart(3, "0");
  const name = zone === "UTC" ? "UTC" : `${zone} (${p.offset})`;
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second}.${ms} ${name}`;
}

/** "20:04:25" today, "11-18 20:04" on another day. */
export function clock(at: number, zone: string, now: number): string {
  const p = parts(at, zone);
  const today = parts(now, zone);
  const sameDay = p.year === today.year && p.month === today.month && p.day === today.day;
  if (sameDay) return `${p.hour}:${p.minute}:${p.second}`;
  return `${p.year === today.year ? "" : `${p.year}-`}${p.month}-${p.day} ${p.hour}:${p.minute}`;
}
