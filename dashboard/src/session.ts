// Who is signed in, and what this role may do. A viewer sees the same pages without buttons.
import { computed, signal } from "@preact/signals";
import { call, whenSignedOut, type Result } from "./api/client";
import type { Session } from "./api/types";
import { query, setQuery } from "./router";

/** undefined: not known yet; null: nobody. */
export const session = signal<Session | null | undefined>(undefined);
export const isAdmin = computed(() => session.value?.role === "admin");

/** What a button changes. The second group is for administrators. */
export type Changes = "jobs" | "runs" | "letters" | "notifications" | "queues" | "workers" | "keys" | "users" | "purge";
const FOR_ADMINS: ReadonlySet<Changes> = new Set<Changes>(["queues", "workers", "keys", "users", "purge"]);

/** Whether to show a button at all. The server decides again. */
export function can(what: Changes): boolean {
  const role = session.value?.role;
  return role === "admin" || (role === "member" && !FOR_ADMINS.has(what));
}

/** Administrators see everybody's objects, unless the URL says `scope=mine`. Undefined: no filter by user. */
export const ownOnly = computed(() => (isAdmin.value && query.value.get("scope") === "mine" ? session.value?.user_id : undefined));

export function setScope(mine: boolean): void {
  setQuery({ scope: mine ? "mine" : undefined });
}

export async function lookWhoIsThere(): Promise<void> {
  const answer = await call("get", "/v1/session");
  if (answer.ok) session.value = answer.value;
  else if (answer.error.status === 401 || session.value === undefined) session.value = null;
}

export async function signIn(key: string): Promise<Result<Session>> {
  const answer = await call("post", "/v1/session", { body: { key } });
  if (answer.ok) session.value = answer.value;
  return answer;
}

export async function signOut(): Promise<void> {
  await call("delete", "/v1/session");
  session.value = null;
}

whenSignedOut(() => (session.value = null));
addEventListener("focus", () => session.peek() === null && void lookWhoIsThere()); // they may have signed in in another tab
