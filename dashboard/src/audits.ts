// A line of the audit log in words.

type Line = { user_id: string | null; action: string; object_id: string | null; detail: Record<string, unknown> | null };

/** Signing in and out, and runs started by hand, change nothing that a chart would show. */
export function tellsOfChange(action: string): boolean {
  return !/^(session|run)\.|\.run_now$|^notifications\.test$/.test(action);
}

/** "anna: job edit …90abcdef", "root: queue pause mail" */
export function auditWords({ user_id, action, object_id, detail }: Line): string {
  const named = ["name", "queue", "set", "user_id"].map((field) => detail?.[field]).find((value) => typeof value === "string");
  const what = named ?? (object_id ? `…${object_id.slice(-8)}` : "");
  return `${user_id ?? "somebody"}: ${action.replace(/[._]/g, " ")} ${what as string}`.trim();
}
