import { useState } from "preact/hooks";
import { toast } from "../toasts";

/** Copies a text. Without a clipboard (plain HTTP) it shows the text to copy by hand. */
export function Copy({ text, what = "it" }: { text: string; what?: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1_500);
    } catch {
      toast(text);
    }
  };
  return (
    <button type="button" class="button quiet copy" aria-label={`Copy ${what}`} title={`Copy ${what}`} onClick={copy}>
      {isDone ? <span aria-hidden="true">✓</span> : <Sheets />}
    </button>
  );
}

function Sheets() {
  return (
    <svg width="12" height="12" viewBox="0 0 12 12" fill="none" stroke="currentColor" aria-hidden="true">
      <rect x="3.5" y="3.5" width="8" height="8" rx="1.5" />
      <path d="M8.5 1.5v-1h-8v8h1" />
    </svg>
  );
}
