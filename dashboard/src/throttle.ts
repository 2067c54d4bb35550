/** `call()` acts at once, or as soon as `every` ms have passed since the last time; calls in between are one. */
export function throttle(act: () => void, every: number): { call: () => void; stop: () => void } {
  let last = -Infinity;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const run = (): void => {
    timer = undefined;
    last = Date.now();
    act();
  };
  return { call: () => void (timer ??= setTimeout(run, Math.max(0, last + every - Date.now()))), stop: () => clearTimeout(timer) };
}
