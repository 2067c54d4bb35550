// Light, dark, or as the system is.
import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
export const THEMES: Theme[] = ["auto", "light", "dark"];
const KEPT = "oncue.theme";
const kept = localStorage.getItem(KEPT) as Theme | null;
const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);
system.addEventListener("change", () => (systemIsDark.value = system.matches));

export const theme = signal<Theme>(kept && THEMES.includes(kept) ? kept : "auto");
/** Canvases draw anew when this changes: `dark.value` in an effect. */
export const dark = signal(false);

effect(() => {
  dark.value = theme.value === "dark" || (theme.value === "auto" && systemIsDark.value);
  document.documentElement.dataset.theme = dark.value ? "dark" : "light";
  localStorage.setItem(KEPT, theme.value);
});

/** The present value of a colour token, for canvases: `token("--dead")`. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
