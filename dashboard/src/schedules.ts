// A schedule in a few words, for lists. The server's own description is in previews.
import type { Schedule } from "./api/types";

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/** "every 5 min", "daily 02:00", "Mon 09:30", or the expression itself. */
export function scheduleWords(schedule: Schedule): string {
  if (schedule.cron) return cronWords(schedule.cron);
  if (schedule.every) return `every ${schedule.every}`;
  if (schedule.calendar) return "calendar";
  return "once";
}

export function isRecurring(schedule: Schedule): boolean {
  return !!(schedule.cron || schedule.every || schedule.calendar);
}

const ALIASES: Record<string, string> = { "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *" };

/** What is common, in words; all else as it is. */
export function cronWords(cron: string): string {
  const fields = (ALIASES[cron.trim().toLowerCase()] ?? cron).trim().split(/\s+/);
  const [minute, hour, day, month, weekday] = fields;
  if (fields.length !== 5 || month !== "*" || (day !== "*" && weekday !== "*")) return cron;
  const days = day === "*" ? weekdayWords(weekday!) : dayWords(day!);
  const times = timeWords(minute!, hour!);
  if (days === null || times === null) return cron;
  if (times.startsWith("every") || times.startsWith("hourly")) return days ? `${times}, ${days}` : times;
  return `${days || "daily"} ${times}`;
}

/** "02:00", "hourly at :05", "every 10 min, 09:00–15:59"; null: nothing short can be said. */
function timeWords(minute: string, hour: string): string | null {
  const pace = minute === "*" ? "every minute" : /^\*\/\d+$/.test(minute) ? `every ${minute.slice(2)} min` : null;
  const isAt = /^\d+$/.test(minute);
  const at = minute.padStart(2, "0");
  const hours = /^(\d+)-(\d+)$/.exec(hour);
  if (pace && hour === "*") return pace;
  if (pace && hours) return `${pace}, ${hours[1]!.padStart(2, "0")}:00–${hours[2]!.padStart(2, "0")}:59`;
  if (isAt && hour === "*") return `hourly at :${at}`;
  if (isAt && /^\*\/\d+$/.test(hour)) return `every ${hour.slice(2)} h at :${at}`;
  if (isAt && hours) return `hourly at :${at}, ${hours[1]!.padStart(2, "0")}–${hours[2]!.padStart(2, "0")} h`;
  return isAt && /^\d+(,\d+)*$/.test(hour) ? hour.split(",").map((one) => `${one.padStart(2, "0")}:${at}`).join(", ") : null;
}

function weekdayWords(field: string): string | null {
  if (field === "*") return "";
  const last = /^(\w+?)L$/i.exec(field);
  if (last) return nameOfDay(last[1]!) && `last ${nameOfDay(last[1]!)} of the month`;
  const named = field.split(",").map((part) => part.split("-").map(nameOfDay));
  return named.some((part) => part.length > 2 || part.includes(null)) ? null : named.map((part) => part.join("–")).join(", ");
}

function nameOfDay(text: string): string | null {
  return DAYS[Number(text)] ?? DAYS.find((day) => day.toUpperCase() === text.toUpperCase()) ?? null;
}

function dayWords(field: string): string | null {
  if (field.toUpperCase() === "L") return "last day of the month";
  return /^\d+$/.test(field) ? `day ${field} of the month` : null;
}
