// Keys without a modifier, when nobody types in a field. `g` and a letter go to a page.
import { useEffect, useRef } from "preact/hooks";

export type Keys = Record<string, (event: KeyboardEvent) => void>;
const stack: Keys[] = [];
const FOR_A_SECOND_KEY = 1_500; // ms
let first = "";
let firstAt = 0;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox");
}

function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.altKey || document.querySelector("dialog[open]")) return;
  const isCommand = event.metaKey || event.ctrlKey;
  if (isTyping(event.target) && !isCommand) return;
  const key = (isCommand ? "mod+" : "") + event.key;
  const both = first && Date.now() - firstAt < FOR_A_SECOND_KEY ? `${first} ${key}` : "";
  const found = stack.findLast((keys) => keys[both] || keys[key]);
  first = key === "g" && !both ? key : "";
  firstAt = Date.now();
  const act = found?.[both] ?? found?.[key];
  if (!act) return;
  event.preventDefault();
  act(event);
}

addEventListener("keydown", pressed);

/** `useKeys({ j: next, k: previous, "g j": toJobs, "mod+k": search })`, while the component is shown. */
export function useKeys(keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const own: Keys = new Proxy({}, { get: (_, name: string) => current.current[name] });
    stack.push(own);
    return () => void stack.splice(stack.indexOf(own), 1);
  }, []);
}
