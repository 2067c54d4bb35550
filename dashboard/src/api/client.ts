// The one way to the API: typed by its OpenAPI document. Errors are values, in the API's words. 401 leads to sign-in.
import { base } from "../router";
import type { AnswerOf, BodyOf, Method, Operation, PathOf, PathsWith, QueryOf } from "./types";

export type FieldError = { path: string; code: string; message: string };
/** `status` 0: there was no answer. */
export type ApiError = { status: number; title: string; detail: string; errors: FieldError[] };
export type Result<T> = { ok: true; value: T; etag: string | null } | { ok: false; error: ApiError };

export type Options<P extends PathsWith<M>, M extends Method> = {
  path?: PathOf<Operation<P, M>>;
  query?: QueryOf<Operation<P, M>>;
  body?: BodyOf<Operation<P, M>>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
};

type Any = { path?: object; query?: object; body?: unknown; headers?: Record<string, string>; signal?: AbortSignal };

let onSignedOut = (): void => {};
/** Has `listener` called when an answer says that nobody is signed in. */
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

/** `await call("post", "/v1/jobs/{id}/pause", { path: { id } })` */
export async function call<M extends Method, P extends PathsWith<M>>(
  method: M,
  path: P,
  options: Options<P, M> = {},
): Promise<Result<AnswerOf<Operation<P, M>>>> {
  const answered = await send(method, path, options);
  if (!answered.ok) return answered;
  try {
    return { ...answered, value: (await answered.value.json()) as AnswerOf<Operation<P, M>> };
  } catch {
    return { ok: false, error: unreachable(options.signal?.aborted ?? false) }; // cut off half-way
  }
}

/** The same for what answers text, such as the log of a run. */
export async function text<P extends PathsWith<"get">>(path: P, options: Options<P, "get"> = {}): Promise<Result<string>> {
  const answered = await send("get", path, options);
  return answered.ok ? { ...answered, value: await answered.value.text() } : answered;
}

async function send(method: Method, path: string, options: Any): Promise<Result<Response>> {
  const headers: Record<string, string> = { ...options.headers };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  let answer: Response;
  try {
    answer = await fetch(urlOf(path, options), { method: method.toUpperCase(), headers, body, signal: options.signal });
  } catch {
    return { ok: false, error: unreachable(options.signal?.aborted ?? false) };
  }
  if (answer.ok) return { ok: true, value: answer, etag: answer.headers.get("ETag") };
  if (answer.status === 401 && path !== "/v1/session") onSignedOut();
  return { ok: false, error: await problemOf(answer) };
}

/** The URL of a call below our prefix, for links and downloads as well. */
export function urlOf(path: string, options: { path?: object; query?: object } = {}): string {
  const values = (options.path ?? {}) as Record<string, string>;
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {})) {
    if (value !== undefined && value !== null && value !== "") query.set(name, String(value));
  }
  const search = query.toString();
  return base + filled.slice(1) + (search ? `?${search}` : "");
}

function unreachable(aborted: boolean): ApiError {
  const detail = aborted ? "The request was given up." : "The server does not answer. It is tried again when you reload.";
  return { status: 0, title: aborted ? "Given up" : "No answer", detail, errors: [] };
}

async function problemOf(answer: Response): Promise<ApiError> {
  const fallback = { status: answer.status, title: answer.statusText, detail: `The server answered ${answer.status}.`, errors: [] };
  try {
    return { ...fallback, ...((await answer.json()) as ApiError) };
  } catch {
    return fallback;
  }
}
