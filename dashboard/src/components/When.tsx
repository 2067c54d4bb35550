import { clock, exact, now, relative, second, zoneName } from "../time";

type Props = {
  /** RFC 3339, or ms since 1970. */
  at: string | number | null | undefined;
  /** The zone of the schedule, shown if the viewer wants schedules' zones. */
  zone?: string;
  /** Relative ("in 4 min", the default) or on the clock ("20:04:25"). */
  as?: "relative" | "clock";
  /** Reachable by Tab, which shows the exact time too; for the few times that matter most on a page. */
  focusable?: boolean;
  none?: string;
};

/** A time; the exact one and its zone on hover and focus. */
export function When({ at, zone, as = "relative", focusable, none = "–" }: Props) {
  if (at === null || at === undefined) return <span class="faint">{none}</span>;
  const ms = typeof at === "number" ? at : Date.parse(at);
  const shownIn = zoneName(zone);
  const text = as === "clock" ? clock(ms, shownIn, now()) : relative(ms, second.value);
  return (
    <time class="when" dateTime={new Date(ms).toISOString()} data-exact={exact(ms, shownIn)} tabIndex={focusable ? 0 : undefined}>
      {text}
    </time>
  );
}
