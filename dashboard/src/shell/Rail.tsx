import { RAIL } from "../pages/pages";
import { pulse } from "../live";
import { href, path } from "../router";

/** The way to every page; on a phone a bar with the five that matter most. */
export function Rail() {
  return (
    <nav class="rail" aria-label="Pages">
      <a class="brand" href={href("/")} aria-label="oncue: overview"><span aria-hidden="true">◔</span> <b>oncue</b></a>
      <ul>
        {RAIL.map((item) => (
          <li key={item.path} class={item.onPhone ? undefined : "wide"}>
            <a href={href(item.path)} aria-current={isAt(item.path) ? "page" : undefined} title={`g ${item.letter}`}>
              <span class="glyph" aria-hidden="true">{item.glyph}</span>
              <span class="label">{item.label}</span>
              <span class="short">{item.label.split(" ")[0]}</span>
              <Count of={item.path} />
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function isAt(item: string): boolean {
  if (item === "/") return path.value === "/";
  if (item === "/queues" && path.value.startsWith("/workers")) return true;
  return path.value === item || path.value.startsWith(`${item}/`);
}

/** Live numbers beside what they are about: quiet unless they say trouble. */
function Count({ of }: { of: string }) {
  const now = pulse.value;
  if (of === "/runs" && now?.running) return <span class="count" title="running now">{now.running}</span>;
  if (of === "/failures" && now?.dead_letters) return <span class="count bad" title="open dead letters">{now.dead_letters}</span>;
  return null;
}
