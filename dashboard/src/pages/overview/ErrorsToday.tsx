import type { Schemas } from "../../api/types";
import { When } from "../../components/When";
import { href } from "../../router";

type Group = Schemas["ErrorGroup"];
const LISTED = 6;
const DAY = 86_400_000;

/** Groups of errors of the last 24 hours, those with the most failures first. */
export function ErrorsToday({ groups, now }: { groups: Group[]; now: number }) {
  const recent = groups.filter((group) => now - Date.parse(group.last_seen) < DAY).sort((a, b) => ofDay(b) - ofDay(a));
  return (
    <section aria-label="Errors of the last 24 hours">
      <h2>Errors of the last 24 hours</h2>
      {!recent.length && <p class="faint">None.</p>}
      <ul class="error-groups">{recent.slice(0, LISTED).map((group) => <One key={group.fingerprint ?? "other"} group={group} />)}</ul>
      {recent.length > LISTED && <p><a href={href("/failures")}>{recent.length - LISTED} more</a></p>}
    </section>
  );
}

function ofDay(group: Group): number {
  return group.trend.reduce((sum, n) => sum + n, 0);
}

function One({ group }: { group: Group }) {
  return (
    <li>
      <a class="error-group" href={href(group.fingerprint ? `/failures/${group.fingerprint}` : "/failures")}>
        <span class="error-name"><b>{group.error_type}</b> <span class="faint">{group.task ?? "other tasks"}</span></span>
        <span class="faint cut">{group.sample}</span>
      </a>
      <Trend values={group.trend} />
      <span class="error-count"><b>{ofDay(group).toLocaleString("en")}×</b> <When at={group.last_seen} /></span>
    </li>
  );
}

/** Failures by the hour, now at the right. */
function Trend({ values }: { values: number[] }) {
  const most = Math.max(1, ...values);
  return (
    <span class="trend bad wide" role="img" aria-label={`By the hour: ${values.join(", ")}`}>
      {values.map((n, hour) => <i key={hour} class={n ? undefined : "is-none"} style={{ height: `${n ? 15 + (85 * n) / most : 6}%` }} />)}
    </span>
  );
}
