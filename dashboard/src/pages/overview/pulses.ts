// The pulses of the last hour, as far as this tab has seen them.
import { signal } from "@preact/signals";
import { onEvents } from "../../live";
import { withPulse, type Beat } from "./beats";

export const beats = signal<Beat[]>([]);

onEvents("pulse", (pulses) => {
  for (const pulse of pulses) if (pulse.started_per_second !== null) beats.value = withPulse(beats.value, pulse);
});
