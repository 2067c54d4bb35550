// Short messages at the edge, also for screen readers.
import { signal } from "@preact/signals";
import type { ApiError, Result } from "./api/client";

export type Toast = { id: number; text: string; isTrouble: boolean };
export const toasts = signal<Toast[]>([]);
const SHOWN_FOR = 6_000; // ms; trouble stays until it is closed
let last = 0;

export function toast(text: string, isTrouble = false): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { id, text, isTrouble }];
  if (!isTrouble) setTimeout(() => close(id), SHOWN_FOR);
}

export function close(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

/** What the API refuses, in its words. */
export function words(error: ApiError): string {
  const fields = error.errors.map((one) => (one.path ? `${one.path}: ${one.message}` : one.message));
  return fields.length ? fields.join("; ") : error.detail;
}

/** Says `done` or what went wrong, and whether it was done. */
export function tell<T>(result: Result<T>, done: string): boolean {
  toast(result.ok ? done : words(result.error), !result.ok);
  return result.ok;
}
