// Parts of a page that ask the same at the same time are answered by one call.
type Shared<T> = { answer: Promise<T>; readers: number; abort: AbortController };

const asked = new Map<string, Shared<unknown>>();

/** Asks, or joins who asked the same just now. The call is given up when the last of them gives up. */
export function shared<T>(key: string, ask: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  const one = (asked.get(key) as Shared<T> | undefined) ?? begun(key, ask);
  one.readers++;
  signal.addEventListener("abort", () => --one.readers || giveUp(key, one));
  return one.answer;
}

/** Nobody joins a call that was given up, not even in the same moment. */
function giveUp(key: string, one: Shared<unknown>): void {
  if (asked.get(key) === one) asked.delete(key);
  one.abort.abort();
}

function begun<T>(key: string, ask: (signal: AbortSignal) => Promise<T>): Shared<T> {
  const abort = new AbortController();
  const one = { answer: ask(abort.signal), readers: 0, abort };
  asked.set(key, one);
  setTimeout(() => asked.get(key) === one && asked.delete(key)); // who asks later may mean what has changed since
  return one;
}
