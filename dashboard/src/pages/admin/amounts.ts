// Amounts as people read them.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(n: number): string {
  const step = n < 1 ? 0 : Math.min(Math.floor(Math.log2(n) / 10), UNITS.length - 1);
  return `${+(n / 2 ** (step * 10)).toFixed(1)} ${UNITS[step]}`;
}

/** "max_payload_bytes" → "Max payload bytes" */
export function spelled(name: string): string {
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A limit: sizes as sizes, other numbers with their thousands apart. */
export function limit(name: string, n: number | null): string {
  if (n === null) return "no limit";
  return /bytes/.test(name) ? bytes(n) : n.toLocaleString("en");
}
