// Every view is its URL. The server tells how far the root is (<base>), so any path of a proxy may be in front of it.
import { computed, signal } from "@preact/signals";

export const base = new URL(".", document.baseURI).pathname;

/** Parameters that go along from page to page. */
const STICKY = ["zone", "scope"];

export type Place = { path: string; query: URLSearchParams };

function read(): Place {
  return { path: "/" + location.pathname.slice(base.length), query: new URLSearchParams(location.search) };
}

export const place = signal<Place>(read());
export const path = computed(() => place.value.path);
export const query = computed(() => place.value.query);

addEventListener("popstate", () => (place.value = read()));

/** The address of a view, for `href`: `href("/jobs", { status: "paused" })`. */
export function href(path: string, params: Record<string, string | undefined> = {}): string {
  const all = new URLSearchParams();
  for (const name of STICKY) if (query.value.has(name)) all.set(name, query.value.get(name)!);
  for (const [name, value] of Object.entries(params)) if (value) all.set(name, value);
  const search = all.toString();
  return base + path.slice(1) + (search ? `?${search}` : "");
}

export function go(address: string, how: { replace?: boolean } = {}): void {
  if (how.replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  const before = place.value.path;
  place.value = read();
  if (place.value.path !== before) scrollTo(0, 0);
}

/** Changes parameters of the present view; an empty value removes one. */
export function setQuery(changes: Record<string, string | undefined>, how: { replace?: boolean } = { replace: true }): void {
  const all = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value ? all.set(name, value) : all.delete(name);
  const search = all.toString();
  go(location.pathname + (search ? `?${search}` : "") + location.hash, how);
}

/** Changes what is after the #, which no server sees. */
export function setHash(text: string): void {
  history.replaceState(null, "", location.pathname + location.search + (text ? `#${text}` : ""));
}

/** Follow links to our own views without loading the page anew. */
export function followLinks(): void {
  addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (!link.pathname.startsWith(base) || /^(v1|assets|metrics|openapi)\b/.test(link.pathname.slice(base.length))) return;
    event.preventDefault();
    go(link.href);
  });
}
