import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

/** The title of a page, on screen and in the tab, with its buttons. */
export function PageHead({ title, children, note }: { title: string; note?: ComponentChildren; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · oncue`;
  }, [title]);
  return (
    <header class="page-head">
      <h1>{title}</h1>
      {note && <div class="note">{note}</div>}
      <div class="actions">{children}</div>
    </header>
  );
}
