// Which lines differ between two texts, by their longest common subsequence.

export type Line = { sign: " " | "-" | "+"; text: string };
const MOST_CELLS = 4_000_000; // of the table; longer texts are shown as removed and added

export function diffLines(before: string, after: string): Line[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const same = (lines: string[]): Line[] => lines.map((text) => ({ sign: " ", text }));
  const middle = between(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...same(a.slice(0, start)), ...middle, ...same(a.slice(a.length - end))];
}

function between(a: string[], b: string[]): Line[] {
  const all = (lines: string[], sign: "-" | "+"): Line[] => lines.map((text) => ({ sign, text }));
  if (!a.length || !b.length || a.length * b.length > MOST_CELLS) return [...all(a, "-"), ...all(b, "+")];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width); // of what follows
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1]! + 1 : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
    }
  }
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) { lines.push({ sign: " ", text: a[i]! }); i++; j++; }
    else if (common[(i + 1) * width + j]! >= common[i * width + j + 1]!) lines.push({ sign: "-", text: a[i++]! });
    else lines.push({ sign: "+", text: b[j++]! });
  }
  return [...lines, ...all(a.slice(i), "-"), ...all(b.slice(j), "+")];
}
