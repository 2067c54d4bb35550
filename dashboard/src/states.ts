// Every state that oncue shows: its glyph, its word, and its tone. Colour means state and nothing else.

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
  finished: of("✓", "finished", "good"),
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

/** Of a job: that it fails, or runs now, matters more than that it is active. */
export function stateOfJob(job: { status: string; last_run?: { status: string } | null }): string {
  return (job.status === "active" && job.last_run && OF_ITS_LAST_RUN[job.last_run.status]) || job.status;
}
