// All pages: where they are, what they are called, the letter after `g`. Each is loaded when it is first shown.
import type { ComponentType } from "preact";

/** What a pattern found in the path: `/jobs/:id/:tab` gives `id` and `tab`. */
export type Params = Record<string, string>;
export type PageModule = { default: ComponentType<{ params: Params }> };
export type PageSpec = { pattern: string; load: () => Promise<PageModule> };

// Several views of one page share its loader, so that the page stays when the view changes.
const job = (): Promise<PageModule> => import("./job/Job");
const failures = (): Promise<PageModule> => import("./failures/Failures");
const queues = (): Promise<PageModule> => import("./queues/Queues");
const admin = (): Promise<PageModule> => import("./admin/Admin");

/** The first that matches is shown. The server knows the first part of each (VIEWS in src/oncue/api/dashboard.py). */
export const PAGES: PageSpec[] = [
  { pattern: "/", load: () => import("./overview/Overview") },
  { pattern: "/jobs", load: () => import("./jobs/Jobs") },
  { pattern: "/jobs/:id/edit", load: () => import("./new/New") },
  { pattern: "/jobs/:id", load: job },
  { pattern: "/jobs/:id/:tab", load: job },
  { pattern: "/runs", load: () => import("./runs/Runs") },
  { pattern: "/runs/:id", load: () => import("./run/Run") },
  { pattern: "/upcoming", load: () => import("./upcoming/Upcoming") },
  { pattern: "/failures", load: failures },
  { pattern: "/failures/:fingerprint", load: failures },
  { pattern: "/queues", load: queues },
  { pattern: "/queues/:name", load: queues },
  { pattern: "/workers", load: queues },
  { pattern: "/workers/:id", load: queues },
  { pattern: "/new", load: () => import("./new/New") },
  { pattern: "/admin", load: admin },
  { pattern: "/admin/:tab", load: admin },
];

/** `onPhone`: in the bar of five at the bottom. */
export type RailItem = { path: string; label: string; glyph: string; letter: string; onPhone?: boolean };

export const RAIL: RailItem[] = [
  { path: "/", label: "Overview", glyph: "◉", letter: "o", onPhone: true },
  { path: "/jobs", label: "Jobs", glyph: "≡", letter: "j", onPhone: true },
  { path: "/runs", label: "Runs", glyph: "▷", letter: "r", onPhone: true },
  { path: "/upcoming", label: "Upcoming", glyph: "◷", letter: "u" },
  { path: "/failures", label: "Failures", glyph: "✕", letter: "f", onPhone: true },
  { path: "/queues", label: "Queues & workers", glyph: "▤", letter: "q", onPhone: true },
  { path: "/new", label: "New job", glyph: "+", letter: "n" },
  { path: "/admin", label: "Admin", glyph: "⚙", letter: "a" },
];

/** The page of a path, and what its pattern found. */
export function pageOf(path: string): { page: PageSpec; params: Params } | null {
  for (const page of PAGES) {
    const params = matched(page.pattern, path);
    if (params) return { page, params };
  }
  return null;
}

export function matched(pattern: string, path: string): Params | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params: Params = {};
  for (const [index, part] of wanted.entries()) {
    if (part.startsWith(":") && given[index]) params[part.slice(1)] = decoded(given[index]);
    else if (part !== given[index]) return null;
  }
  return params;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
