// Changes as they happen. One stream serves all tabs of a browser: the tab that holds a lock reads it and passes it on.
// (A SharedWorker would need a script address as a string, which Trusted Types refuse.) Events are collected, the last
// one of each object wins, and all are applied at once before a frame is drawn.
import { effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { urlOf } from "./api/client";
import { base } from "./router";
import { lookWhoIsThere, session } from "./session";
import type { Run } from "./api/types";

export type RunEvent = Omit<Run, "result" | "log_url">;
export type JobEvent = { job_id: string; name: string | null; task: string; status: string; next_run_at: string | null; updated_at: string; version: number };
export type DeadEvent = { run_id: string; job_id: string; job_name: string | null; task: string; end_time: string; error_type: string | null; error_message: string | null; fingerprint: string | null };
export type WorkerEvent = { worker_id: string; name: string; host: string; seen_at: string; status: string; change: string };
export type QueueEvent = { name: string; change: string; paused_since: string | null };
export type PulseEvent = {
  at: string;
  started_per_second: number | null;
  succeeded_per_second: number | null;
  failed_per_second: number | null;
  dead_per_second: number | null;
  lag_p50_ms: number | null;
  lag_p99_ms: number | null;
  running: number;
  due: number;
  more: boolean;
  dead_letters: number;
};
export type Events = { run: RunEvent; job: JobEvent; dead: DeadEvent; worker: WorkerEvent; queue: QueueEvent; pulse: PulseEvent };
export type EventType = keyof Events;

/** live; catching up: connecting; paused: by the user; away: no connection for a while. */
export type LiveState = "live" | "catching up" | "paused" | "away";
export const liveState = signal<LiveState>("catching up");
export const pulse = signal<PulseEvent | null>(null);

const TYPES: EventType[] = ["run", "job", "dead", "worker", "queue", "pulse"];
const IDS: Record<EventType, string> = { run: "run_id", job: "job_id", dead: "run_id", worker: "worker_id", queue: "name", pulse: "" };
const MOST_PENDING = 5_000; // of a hidden tab; beyond that it reloads when it is seen again
const RELOAD_AT_MOST_EVERY = 2_000; // ms, while resyncs come one after the other
const AWAY_AFTER = 8_000; // ms
const AGAIN_AFTER = 3_000; // ms

type Message = { type: EventType; data: unknown } | { type: "resync" } | { type: "state"; state: LiveState } | { type: "who" };

const handlers: { [T in EventType]: Set<(events: Events[T][]) => void> } = {
  run: new Set(), job: new Set(), dead: new Set(), worker: new Set(), queue: new Set(), pulse: new Set(),
};
const resyncHandlers = new Set<() => void>();
let pending = new Map<string, { type: EventType; data: unknown }>();
let isMissing = false;
let frame = 0;
let lastReload = 0;
let hasFollowed = false; // a stream, of this or another tab: what happens until the next one opens is missing
let reloadTimer: ReturnType<typeof setTimeout> | undefined;
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel(`oncue live ${base}`) : null;

/** Calls back with what changed, at most once a frame. Returns how to stop. */
export function onEvents<T extends EventType>(type: T, handler: (events: Events[T][]) => void): () => void {
  handlers[type].add(handler);
  return () => handlers[type].delete(handler);
}

/** The same in a component, while it is shown. */
export function useEvents<T extends EventType>(type: T, handler: (events: Events[T][]) => void, depends: unknown[] = []): void {
  useEffect(() => onEvents(type, handler), depends);
}

/** Calls back when events are missing: what is shown has to be loaded again. */
export function onResync(handler: () => void): () => void {
  resyncHandlers.add(handler);
  return () => resyncHandlers.delete(handler);
}

export function pauseLive(paused: boolean): void {
  if (paused) liveState.value = "paused";
  else {
    liveState.value = "live";
    receive({ type: "resync" });
  }
}

function receive(message: Message): void {
  if (liveState.value === "paused") return;
  if (message.type === "who") return void (session.peek() && lookWhoIsThere());
  liveState.value = message.type === "state" ? message.state : "live";
  if (message.type === "state") return;
  if (message.type === "resync") isMissing = true;
  else {
    const id = (message.data as Record<string, string>)[IDS[message.type]] ?? "";
    pending.set(`${message.type} ${id}`, message);
    if (pending.size > MOST_PENDING) isMissing = true;
  }
  if (isMissing) pending.clear();
  if (!frame) frame = requestAnimationFrame(apply);
}

function apply(): void {
  frame = 0;
  const events = pending;
  pending = new Map();
  if (isMissing) reloadSoon();
  isMissing = false;
  for (const type of TYPES) {
    const some = [...events.values()].filter((one) => one.type === type).map((one) => one.data);
    if (some.length) for (const handler of handlers[type]) (handler as (events: unknown[]) => void)(some);
  }
}

function reloadSoon(): void {
  const wait = Math.max(0, lastReload + RELOAD_AT_MOST_EVERY - Date.now());
  reloadTimer ??= setTimeout(() => {
    reloadTimer = undefined;
    lastReload = Date.now();
    for (const handler of resyncHandlers) handler();
  }, wait);
}

/** Passes a message of our own stream to this tab and to the others. */
function tell(message: Message): void {
  receive(message);
  channel?.postMessage(message);
}

/** Reads the stream until nobody is signed in. */
function readStream(): Promise<void> {
  return new Promise((done) => {
    let source: EventSource | undefined;
    let away: ReturnType<typeof setTimeout> | undefined;
    let again: ReturnType<typeof setTimeout> | undefined;
    const open = (): void => {
      let isFirst = true; // else the browser has resumed the stream by itself, where it broke off
      source = new EventSource(urlOf("/v1/events", { query: { pulse: "true" } }));
      source.onopen = () => {
        clearTimeout(away);
        away = undefined;
        tell(isFirst && hasFollowed ? { type: "resync" } : { type: "state", state: "live" });
        isFirst = false;
        hasFollowed = true;
      };
      for (const type of TYPES) source.addEventListener(type, (event) => tell({ type, data: JSON.parse(event.data as string) }));
      source.addEventListener("resync", () => tell({ type: "resync" }));
      source.onerror = () => {
        if (away === undefined) tell({ type: "state", state: "catching up" }); // each further try fails, too
        away ??= setTimeout(() => tell({ type: "state", state: "away" }), AWAY_AFTER);
        if (source?.readyState !== EventSource.CLOSED) return;
        again = setTimeout(() => void lookWhoIsThere().then(() => session.value && open()), AGAIN_AFTER);
      };
    };
    open();
    const stop = effect(() => {
      if (session.value) return;
      source?.close();
      clearTimeout(away);
      clearTimeout(again);
      queueMicrotask(() => stop());
      done();
    });
  });
}

/** Starts when somebody signs in, ends when they sign out. Without locks (plain HTTP) each tab has its own stream. */
export function startLive(): void {
  channel?.addEventListener("message", (event: MessageEvent<Message>) => {
    hasFollowed ||= event.data.type !== "who";
    receive(event.data);
  });
  document.addEventListener("visibilitychange", () => !document.hidden && apply());
  onEvents("pulse", (events) => (pulse.value = events[events.length - 1] ?? null));
  const isReading = signal(false);
  effect(() => {
    if (session.value === null) channel?.postMessage({ type: "who" } satisfies Message);
    if (!session.value || isReading.value) return;
    isReading.value = true;
    const over = "locks" in navigator ? navigator.locks.request(`oncue live ${base}`, { mode: "exclusive" }, readIfSignedIn) : readStream();
    void over.then(() => (isReading.value = false));
  });
}

async function readIfSignedIn(): Promise<void> {
  if (session.peek()) await readStream();
}
