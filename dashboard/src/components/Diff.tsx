import { diffLines } from "./lines";

const WORDS = { "-": "removed", "+": "added", " ": "" };

/** Two values as indented JSON, line by line. Signs tell what colours tell. */
export function Diff({ before, after, label }: { before: unknown; after: unknown; label: string }) {
  const text = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");
  return (
    <pre class="diff" tabIndex={0} role="region" aria-label={label}>
      {diffLines(text(before), text(after)).map((line) => (
        <span class={line.sign === "-" ? "line bad" : line.sign === "+" ? "line good" : "line"}>
          {WORDS[line.sign] && <span class="for-readers">{WORDS[line.sign]} </span>}
          {line.sign} {line.text}{"\n"}
        </span>
      ))}
    </pre>
  );
}
