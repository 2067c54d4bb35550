// `useAnswer` for questions that are no GET: previews, dry runs.
import { useEffect, useState } from "preact/hooks";
import type { ApiError, Result } from "./client";

export type Answered<T> = { data: T | undefined; error: ApiError | undefined; loading: boolean };

/** Asks when `key` changes, after `delay` ms without another change; what was answered last stays meanwhile. `null` asks nothing. */
export function useAnswer<T>(key: string | null, ask: (signal: AbortSignal) => Promise<Result<T>>, delay = 0): Answered<T> {
  const [state, setState] = useState<{ key: string | null; data?: T; error?: ApiError }>({ key: null });
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      void ask(abort.signal).then((answer) => {
        if (!abort.signal.aborted) setState((old) => (answer.ok ? { key, data: answer.value } : { key, data: old.data, error: answer.error }));
      });
    }, delay);
    return () => (clearTimeout(timer), abort.abort());
  }, [key]);
  return { data: state.data, error: state.key === key ? state.error : undefined, loading: key !== null && state.key !== key };
}
