// The lines of a log, as they arrive in pieces, with the level of each.

export type Level = "error" | "warning" | "info" | "debug";
export type LogLine = { at: string; level: Level | null; text: string };
export const LEVELS: Level[] = ["error", "warning", "info", "debug"];

const LINE = /^(\d{4}-\d\d-\d\dT[\d:.]+Z) (?:(CRITICAL|ERROR|WARNING|INFO|DEBUG) )?(.*)$/;
/** Between the lines of two attempts: its time is shown as the others are. */
const START = /^── start (\d+), (\d{4}-\d\d-\d\dT[\d:.]+Z) ──$/;
const NAMES: Record<string, Level> = { CRITICAL: "error", ERROR: "error", WARNING: "warning", INFO: "info", DEBUG: "debug" };

/** Takes pieces of text and keeps its lines. What follows a line without a time of its own (a traceback) has its level. */
export class LogLines {
  lines: LogLine[] = [];
  private rest = "";

  add(piece: string): void {
    const whole = (this.rest + piece).split("\n");
    this.rest = whole.pop()!;
    for (const text of whole) this.push(text);
  }

  /** The last line may have no end. */
  finish(): void {
    if (this.rest) this.push(this.rest);
    this.rest = "";
  }

  private push(text: string): void {
    const start = START.exec(text);
    if (start) return void this.lines.push({ at: start[2]!, level: null, text: `── start ${start[1]} ──` });
    const found = LINE.exec(text);
    const last = this.lines[this.lines.length - 1];
    this.lines.push(found ? { at: found[1]!, level: found[2] ? NAMES[found[2]]! : null, text: found[3]! } : { at: "", level: levelOf(text, last), text });
  }
}

/** Of a line without a time: that of the one before; a traceback is an error, and a new start begins anew. */
function levelOf(text: string, last: LogLine | undefined): Level | null {
  if (text.startsWith("──")) return null;
  return text.startsWith("Traceback (most recent call last)") ? "error" : (last?.level ?? null);
}

/** Those of these levels that contain a text; all of them if nothing is wanted. */
export function filtered(lines: LogLine[], levels: string[], find: string): LogLine[] {
  if (!levels.length && !find) return lines;
  const wanted = find.toLowerCase();
  return lines.filter((line) => (!levels.length || levels.includes(line.level ?? "info")) && (!wanted || line.text.toLowerCase().includes(wanted)));
}
