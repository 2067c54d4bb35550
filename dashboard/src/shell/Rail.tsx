import { useRef } from "preact/hooks";
import { RAIL, type RailItem } from "../pages/pages";
import { pulse } from "../live";
import { href, path } from "../router";

const FEWER = RAIL.filter((item) => !item.onPhone);

/** The way to every page; on a phone a bar with the five that matter most, and the others behind More. */
export function Rail() {
  const more = useRef<HTMLDivElement>(null);
  return (
    <nav class="rail" aria-label="Pages">
      <a class="brand" href={href("/")} aria-label="oncue: overview"><span aria-hidden="true">◔</span> <b>oncue</b></a>
      <ul>
        {RAIL.map((item) => (
          <li key={item.path} class={item.onPhone ? undefined : "wide"}>
            <Way item={item} />
          </li>
        ))}
        <li class="narrow">
          <button type="button" popovertarget="more-pages" class={FEWER.some((item) => isAt(item.path)) ? "is-current" : undefined}>
            <span class="glyph" aria-hidden="true">⋯</span>
            <span class="short">More</span>
          </button>
          <div id="more-pages" class="more-pages" popover="auto" ref={more} onClick={() => more.current?.hidePopover()}>
            {FEWER.map((item) => <Way key={item.path} item={item} />)}
          </div>
        </li>
      </ul>
    </nav>
  );
}

function Way({ item }: { item: RailItem }) {
  return (
    <a href={href(item.path)} aria-current={isAt(item.path) ? "page" : undefined} title={`g ${item.letter}`}>
      <span class="glyph" aria-hidden="true">{item.glyph}</span>
      <span class="label">{item.label}</span>
      <span class="short">{item.label.split(" ")[0]}</span>
      <Count of={item.path} />
    </a>
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
