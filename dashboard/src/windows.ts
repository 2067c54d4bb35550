// Windows of time that a view shows, in its URL: "24h", "7d".
const HOUR = 3_600_000;
const LENGTHS: Record<string, number> = { "1h": HOUR, "6h": 6 * HOUR, "24h": 24 * HOUR, "7d": 168 * HOUR, "30d": 720 * HOUR, "1y": 8_760 * HOUR };

export function lengthOf(window: string): number {
  return known(LENGTHS, window) ?? 24 * HOUR;
}

/** What a table has for a text of an address, which may be the name of something that every object has. */
export function known<T>(table: Record<string, T>, name: string | null | undefined): T | undefined {
  return Object.hasOwn(table, name ?? "") ? table[name!] : undefined;
}
