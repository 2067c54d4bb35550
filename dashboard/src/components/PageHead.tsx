import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

/** The title of a page, on screen and in the tab, with its buttons. `kind`: what has this name ("Queue"). */
export function PageHead({ title, kind, children, note }: { title: string; kind?: string; note?: ComponentChildren; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${kind ? `${kind} ` : ""}${title} · oncue`;
  }, [title, kind]);
  return (
    <header class="page-head">
      <h1>{kind && <span class="faint">{kind} </span>}{title}</h1>
      {note && <div class="note">{note}</div>}
      <div class="actions">{children}</div>
    </header>
  );
}
