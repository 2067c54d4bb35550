import { shortId, type Called } from "../names";

/** What a job or run is called; the end of its id beside a title that others have, too. */
export function Name({ of: { title, id } }: { of: Called }) {
  return (
    <span class="name" title={title}>
      <span class="name-title">{title}</span>{id && <> <code class="name-id" title={id}>{shortId(id)}</code></>}
    </span>
  );
}
