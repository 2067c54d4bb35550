import type { Schemas } from "../../api/types";
import { Trend } from "../../components/Trend";
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
      <span class="wide"><Trend counts={group.trend} label="Failures" /></span>
      <span class="error-count"><b>{ofDay(group).toLocaleString("en")}×</b> <When at={group.last_seen} /></span>
    </li>
  );
}
