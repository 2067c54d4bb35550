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

export function cronWords(cron: string): string {
  const fields = cron.trim().split(/\s+/);
  const [minute, hour, day, month, weekday] = fields;
  if (fields.length !== 5 || month !== "*" || day !== "*") return cron;
  const every = /^\*\/(\d+)$/.exec(minute!);
  if (every && hour === "*" && weekday === "*") return `every ${every[1]} min`;
  if (minute === "*" && hour === "*" && weekday === "*") return "every minute";
  if (!/^\d+$/.test(minute!)) return cron;
  if (hour === "*" && weekday === "*") return `hourly at :${minute!.padStart(2, "0")}`;
  if (!/^\d+$/.test(hour!)) return cron;
  const time = `${hour!.padStart(2, "0")}:${minute!.padStart(2, "0")}`;
  if (weekday === "*") return `daily ${time}`;
  if (weekday === "1-5") return `Mon–Fri ${time}`;
  return /^[0-7]$/.test(weekday!) ? `${DAYS[Number(weekday)]} ${time}` : cron;
}
