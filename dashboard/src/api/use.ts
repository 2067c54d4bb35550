// Hooks for pages: `useGet` for one answer, `usePaged` for a list with page tokens. Both reload when events are missing.
// Several parts of a page may ask the same: useGet shares the call.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { onResync } from "../live";
import { call, type ApiError, type Options } from "./client";
import { shared } from "./sharing";
import type { AnswerOf, Operation, PathsWith } from "./types";

type Answer<P extends PathsWith<"get">> = AnswerOf<Operation<P, "get">>;
export type Loaded<T> = {
  data: T | undefined;
  error: ApiError | undefined;
  /** While `data` is of an earlier question, or there is none. */
  loading: boolean;
  etag: string | null;
  reload: () => void;
  /** Changes what is shown, for live events: `update((job) => ({ ...job, ...event }))`. */
  update: (change: (data: T) => T) => void;
};

/** Asks now, whenever the question changes, and again when events are missing. `null` asks nothing. */
export function useGet<P extends PathsWith<"get">>(path: P | null, options: Options<P, "get"> = {}): Loaded<Answer<P>> {
  const key = path === null ? null : JSON.stringify([path, options.path, options.query]);
  const [state, setState] = useState<{ key: string | null; data?: Answer<P>; error?: ApiError; etag?: string | null }>({ key: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    void shared(key!, (signal) => call("get", path, { ...options, signal }), abort.signal).then((answer) => {
      if (abort.signal.aborted) return;
      setState((old) =>
        answer.ok
          ? { key, data: answer.value, etag: answer.etag }
          : { key, data: old.key === key ? old.data : undefined, error: answer.error },
      );
    });
    return () => abort.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  useEffect(() => onResync(reload), []);
  const update = useCallback(
    (change: (data: Answer<P>) => Answer<P>) =>
      setState((old) => (old.data === undefined ? old : { ...old, data: change(old.data) })),
    [],
  );
  return { data: state.data, error: state.error, loading: state.key !== key, etag: state.etag ?? null, reload, update };
}

type Page = { next_page_token?: string | null; looked_back_to?: string | null };
export type Paged<T> = {
  items: T[];
  error: ApiError | undefined;
  /** Nothing of this question is here yet. */
  loading: boolean;
  /** There is more, and `more()` asks for it. */
  hasMore: boolean;
  /** How far a short page looked; for <LookedBack>. */
  lookedBackTo: string | null;
  more: () => void;
  reload: () => void;
  update: (change: (items: T[]) => T[]) => void;
};

type PagedState<T> = { key: string; items: T[]; token: string | null; lookedBackTo: string | null; error?: ApiError };

/** `usePaged("/v1/jobs", { query }, (page) => page.jobs)` */
export function usePaged<P extends PathsWith<"get">, T>(
  path: P,
  options: Options<P, "get">,
  pick: (page: Answer<P>) => T[],
): Paged<T> {
  const key = JSON.stringify([path, options.path, options.query]);
  const [state, setState] = useState<PagedState<T>>({ key: "", items: [], token: null, lookedBackTo: null });
  const [round, setRound] = useState(0);
  const asking = useRef<AbortController | null>(null);

  function ask(token: string | null): void {
    asking.current?.abort();
    const abort = (asking.current = new AbortController());
    const query = { ...(options.query as object), ...(token ? { page_token: token } : {}) } as Options<P, "get">["query"];
    void call("get", path, { ...options, query, signal: abort.signal }).then((answer) => {
      if (abort.signal.aborted) return;
      asking.current = null;
      if (!answer.ok) return setState((old) => ({ ...(old.key === key ? old : empty(key)), error: answer.error }));
      const page = answer.value as Answer<P> & Page;
      const items = pick(page);
      setState((old) => ({
        key,
        items: token && old.key === key ? [...old.items, ...items] : items,
        token: page.next_page_token ?? null,
        lookedBackTo: page.looked_back_to ?? null,
      }));
    });
  }

  useEffect(() => {
    ask(null);
    return () => asking.current?.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  useEffect(() => onResync(reload), []);
  const update = useCallback((change: (items: T[]) => T[]) => setState((old) => ({ ...old, items: change(old.items) })), []);
  return {
    items: state.items,
    error: state.error,
    loading: state.key !== key,
    hasMore: state.token !== null,
    lookedBackTo: state.lookedBackTo,
    more: () => state.token && !asking.current && ask(state.token),
    reload,
    update,
  };
}

function empty<T>(key: string): PagedState<T> {
  return { key, items: [], token: null, lookedBackTo: null };
}
