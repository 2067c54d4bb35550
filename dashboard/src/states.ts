// Every state that oncue shows: its glyph, its word, and its tone. Colour means state and nothing else.

import type { Schedule } from "./api/types";
import { FINAL } from "./runs";
import { isRecurring } from "./schedules";

export type Tone = "good" | "running" | "warn" | "bad" | "quiet";
export type State = { glyph: string; word: string; tone: Tone };

const of = (glyph: string, word: string, tone: Tone): State => ({ glyph, word, tone });

export const STATES: Record<string, State> = {
  // runs
  scheduled: of("○", "scheduled", "quiet"),
  queued: of("●", "queued", "quiet"),
  running: of("▶", "running", "running"),
  retrying: of("↻", "retrying", "warn"),
  cancelling: of("◌", "cancelling", "warn"),
  succeeded: of("✓", "succeeded", "good"),
  dead: of("✕", "dead", "bad"),
  cancelled: of("⊘", "cancelled", "quiet"),
  expired: of("⌛", "expired", "quiet"),
  // jobs
  active: of("○", "active", "quiet"),
  paused: of("‖", "paused", "quiet"),
  failing: of("✕", "failing", "bad"), // its last run is dead
  finished: of("■", "finished", "quiet"), // says nothing of its runs
  // occurrences
  started: of("✓", "started", "good"),
  late: of("◷", "late", "warn"),
  waiting: of("○", "waiting", "quiet"),
  skipped: of("⇥", "skipped", "quiet"),
  coalesced: of("⋈", "coalesced", "quiet"),
  missed: of("⊗", "missed", "bad"),
  // attempts
  failed: of("✕", "failed", "bad"),
  timed_out: of("◷", "timed out", "bad"),
  lost: of("⊗", "lost", "bad"),
  preempted: of("⇥", "preempted", "quiet"),
  // workers
  draining: of("◌", "draining", "warn"),
  no_heartbeat: of("!", "no heartbeat", "warn"),
  // keys and findings
  valid: of("✓", "valid", "good"),
  revoked: of("⊘", "revoked", "quiet"),
  open: of("✕", "open", "bad"),
  cleared: of("✓", "cleared", "good"),
  // queues
  no_worker: of("⊗", "no worker", "bad"),
};

export function stateOf(name: string): State {
  return STATES[name] ?? of("·", name.replaceAll("_", " "), "quiet");
}

const OF_ITS_LAST_RUN: Record<string, string> = { running: "running", cancelling: "cancelling", retrying: "retrying", dead: "failing" };

type Shown = { job_id: string; status: string; schedule: Schedule; last_run?: { run_id: string; status: string } | null };

/** Of a job: how its only run ended, that it fails, or that it runs now matters more than that it is active or finished. */
export function stateOfJob(job: Shown): string {
  const last = job.last_run;
  if (!last || (job.status !== "active" && job.status !== "finished")) return job.status;
  const isOver = job.status === "finished" || (last.run_id === job.job_id && FINAL.includes(last.status));
  return (isOver && !isRecurring(job.schedule) && last.status) || OF_ITS_LAST_RUN[last.status] || job.status;
}
