import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { urlOf } from "../../api/client";
import { Button } from "../../components/Button";
import { Filters } from "../../components/Filters";
import { query } from "../../router";
import { clock, now, zoneName } from "../../time";
import { filtered, LEVELS, LogLines, type LogLine } from "./loglines";

const TAIL = 5_000; // lines that are read at first
const LINE = 20; // px, as in the style
const SPARE = 20; // lines beyond the edges of the box
const AGAIN_AFTER = 2_000; // ms, when the stream broke

type Props = { runId: string; isLive: boolean };

/** The end of the log, as it grows. It follows until somebody scrolls up; only lines near the box exist. */
export function Log({ runId, isLive }: Props) {
  const [isAll, setAll] = useState(false);
  const { lines, isOpen, error } = useLog(runId, isLive, isAll);
  const levels = (query.value.get("level") ?? "").split(",").filter(Boolean);
  const shown = filtered(lines, levels, query.value.get("find") ?? "");
  return (
    <section class="log-section" aria-label="Log">
      <div class="section-head">
        <h2>Log</h2>
        <span class="faint">{lines.length.toLocaleString("en")} {lines.length === 1 ? "line" : "lines"}{shown.length < lines.length && `, ${shown.length.toLocaleString("en")} shown`}{isOpen && ", following"}</span>
        <Filters filters={[{ param: "level", label: "Level", choices: LEVELS }, { param: "find", label: "Find in the log" }]} />
        <a class="button quiet" href={urlOf("/v1/runs/{id}/logs", { path: { id: runId } })} target="_blank" rel="noreferrer">Whole log as text</a>
      </div>
      {lines.length >= TAIL && !isAll && <p class="looked-back">The last {TAIL.toLocaleString("en")} lines and what followed. <Button onClick={() => setAll(true)}>Read it from the beginning</Button></p>}
      {error && <p class="refusal" role="alert">{error}</p>}
      {shown.length > 0 ? <Lines lines={shown} count={shown.length} /> : <p class="faint log-empty">{lines.length ? "No line matches." : isLive ? "Nothing is logged yet." : "It logged nothing."}</p>}
    </section>
  );
}

/** `count`: the same list grows, and a component with the same props is not shown anew. */
function Lines({ lines, count }: { lines: LogLine[]; count: number }) {
  const box = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  const [view, setView] = useState({ top: 0, height: 400, isAtEnd: true });
  const look = (): void => {
    const { scrollTop, clientHeight, scrollHeight } = box.current!;
    isFollowing.current = scrollTop + clientHeight >= scrollHeight - LINE;
    setView({ top: scrollTop, height: clientHeight, isAtEnd: isFollowing.current });
  };
  const toEnd = (): void => void (box.current!.scrollTop = box.current!.scrollHeight);
  useLayoutEffect(() => void (isFollowing.current && toEnd()), [count]);
  const first = Math.max(0, Math.floor(view.top / LINE) - SPARE);
  const last = Math.min(count, Math.ceil((view.top + view.height) / LINE) + SPARE);
  return (
    <div class="log-box">
      <div class="log" ref={box} onScroll={look} tabIndex={0} role="log" aria-label="Log lines" aria-live="off">
        <div class="log-lines" style={{ height: `${count * LINE}px`, paddingTop: `${first * LINE}px` }}>
          {lines.slice(first, last).map((line, index) => <Line key={first + index} line={line} />)}
        </div>
      </div>
      {!view.isAtEnd && <div class="log-follow"><Button onClick={toEnd}>↓ Follow</Button></div>}
    </div>
  );
}

const TONES: Record<string, string> = { error: "bad", warning: "warn" };

function Line({ line }: { line: LogLine }) {
  const level = line.level ?? "";
  return (
    <div class={`log-line ${TONES[level] ?? ""} is-${level || "plain"}`}>
      <span class="log-time" title={line.at}>{line.at && clock(Date.parse(line.at), zoneName(), now())}</span>
      <span class="log-level">{line.at && level}</span>
      <span class="log-text">{line.text}</span>
    </div>
  );
}

/** Reads the log as a stream until the run ends. Lines are shown once a frame. */
function useLog(runId: string, isLive: boolean, isAll: boolean): { lines: LogLine[]; isOpen: boolean; error: string } {
  const [, setRound] = useState(0);
  const [error, setError] = useState("");
  const [isOpen, setOpen] = useState(false);
  const log = useRef(new LogLines());
  useEffect(() => {
    const abort = new AbortController();
    let frame = 0;
    let again: ReturnType<typeof setTimeout>;
    const show = (): void => void (frame ||= requestAnimationFrame(() => (frame = 0, setRound((n) => n + 1))));
    const read = async (): Promise<void> => {
      const fresh = new LogLines();
      const question = { follow: "true", ...(isAll ? {} : { tail: TAIL }) };
      const answer = await fetch(urlOf("/v1/runs/{id}/logs", { path: { id: runId }, query: question }), { signal: abort.signal });
      if (!answer.ok || !answer.body) return setError(`The log cannot be read: the server answered ${answer.status}.`);
      log.current = fresh;
      setError("");
      setOpen(true);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) (fresh.add(piece.value), show());
      fresh.finish();
      setOpen(false);
      show();
    };
    const begin = (): void => void read().catch(() => {
      if (abort.signal.aborted) return;
      setOpen(false);
      again = setTimeout(begin, AGAIN_AFTER);
    });
    begin();
    return () => (abort.abort(), cancelAnimationFrame(frame), clearTimeout(again));
  }, [runId, isAll]);
  return { lines: log.current.lines, isOpen: isOpen && isLive, error };
}
