import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { shortId } from "../names";

/** The title of a page, on screen and in the tab, with its buttons. `kind`: what has this name ("Queue"); `id`: of an object that is called like others. */
export function PageHead({ title, kind, id, children, note }: { title: string; kind?: string; id?: string; note?: ComponentChildren; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${kind ? `${kind} ` : ""}${title} · oncue`;
  }, [title, kind]);
  return (
    <header class="page-head">
      <h1>{kind && <span class="faint">{kind} </span>}{title}{id && <> <code class="name-id" title={id}>{shortId(id)}</code></>}</h1>
      {note && <div class="note">{note}</div>}
      <div class="actions">{children}</div>
    </header>
  );
}
