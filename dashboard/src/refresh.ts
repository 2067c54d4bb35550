// Loading again when something changed, but not more often than is of use.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { throttle } from "./throttle";
import { pulse, type PulseEvent } from "./live";

/** `act`, at once or as soon as `every` ms have passed since the last time; calls in between are one. */
export function useThrottled(act: () => void, every: number): () => void {
  const latest = useRef(act);
  latest.current = act;
  const throttled = useMemo(() => throttle(() => latest.current(), every), [every]);
  useEffect(() => throttled.stop, [throttled]);
  return throttled.call;
}

/** Calls `reload` when these numbers of the pulse changed, at most once in `every` ms. */
export function usePulse(numbers: (now: PulseEvent) => unknown, reload: () => void, every: number): void {
  const soon = useThrottled(reload, every);
  const value = pulse.value && JSON.stringify(numbers(pulse.value));
  const before = useRef(value);
  useEffect(() => {
    if (value && before.current !== value) soon(); // also for the first: it may have changed before the stream was open
    before.current = value;
  }, [value]);
}
