/** Counts over the last hours as bars, the newest at the right. An hour without any is a dot on the line. */
export function Trend({ counts, label }: { counts: number[]; label: string }) {
  const most = Math.max(1, ...counts);
  const total = counts.reduce((sum, n) => sum + n, 0);
  return (
    <span class="trend" role="img" aria-label={`${label}: ${total} in the last ${counts.length} hours, ${counts.at(-1) ?? 0} in this one`}>
      {counts.map((n, index) => (
        <i key={index} class={n ? "bar" : "bar is-none"} style={{ height: `${n ? Math.max(15, (100 * n) / most) : 8}%` }} title={`${n} ${ago(counts.length - 1 - index)}`} />
      ))}
    </span>
  );
}

function ago(hours: number): string {
  return hours ? `${hours} h ago` : "in this hour";
}
