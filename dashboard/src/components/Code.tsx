import { Copy } from "./Copy";

/** Text as it is, to read and to copy. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      <pre tabIndex={0} role="region" aria-label={label}>{text}</pre>
      <Copy text={text} what={label} />
    </div>
  );
}

/** A JSON value, indented. */
export function Json({ value, label }: { value: unknown; label: string }) {
  return <Code text={JSON.stringify(value, null, 2) ?? "null"} label={label} />;
}
