import type { Paged } from "../../api/use";
import type { ErrorGroup } from "../../api/types";
import { Empty } from "../../components/Empty";
import { Filters } from "../../components/Filters";
import { LookedBack } from "../../components/LookedBack";
import { Table, type Column } from "../../components/Table";
import { Trend } from "../../components/Trend";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { href, query } from "../../router";
import { isAdmin, ownOnly } from "../../session";
import { RecentBulks } from "./RecentBulks";

const FILTERS = [
  { param: "show", label: "Which groups", choices: ["with_dead_letters"], one: true },
  { param: "about", label: "Error, task or message", placeholder: "Find in errors" },
];

/** Failures that are alike, those with the newest first. */
export function Groups({ groups }: { groups: Paged<ErrorGroup> }) {
  const shown = groups.items.filter(matches(query.value));
  return (
    <>
      <RecentBulks />
      <Filters filters={FILTERS} />
      {groups.error && <Trouble error={groups.error} onAgain={groups.reload} />}
      {shown.length > 0 && <Table label="Groups of errors" columns={columnsOf(isAdmin.value && !ownOnly.value)} rows={shown} keyOf={keyOf} isStale={groups.loading} onEnd={groups.more} />}
      {!groups.loading && !groups.error && !shown.length && <Nothing isFiltered={groups.items.length > 0} />}
      {shown.length > 0 && <p class="footnote">Failures of one kind are one row, for 30 days after the last one. A trend has the last 24 hours; {groups.items.length}{groups.hasMore ? " or more" : ""} {groups.items.length === 1 ? "group was" : "groups were"} looked at.</p>}
      <LookedBack to={groups.lookedBackTo} hasMore={groups.hasMore} onMore={groups.more} />
    </>
  );
}

/** The API lists groups without filters; there are few of them. */
function matches(wanted: URLSearchParams): (group: ErrorGroup) => boolean {
  const about = (wanted.get("about") ?? "").toLowerCase();
  const onlyOpen = wanted.get("show") === "with_dead_letters";
  return (group) => (!onlyOpen || !!group.open_letters) && (!about || `${group.error_type} ${group.task} ${group.sample}`.toLowerCase().includes(about));
}

function keyOf(group: ErrorGroup): string {
  return `${group.user_id} ${group.fingerprint}`;
}

function columnsOf(withOwner: boolean): Column<ErrorGroup>[] {
  const columns: Column<ErrorGroup>[] = [
    { head: "Error", cell: (group) => <What group={group} /> },
    { head: "Task", width: "12%", wide: true, cell: (group) => <span class="cut">{group.task ?? "several"}</span> },
    { head: "Last 24 h", width: "9.5rem", wide: true, cell: (group) => <Trend counts={group.trend} label="Failures" /> },
    { head: "Failures", width: "5rem", align: "end", wide: true, cell: (group) => <span class="number">{group.count.toLocaleString("en")}</span> },
    { head: <abbr title="dead letters that nobody has run again or discarded">Open</abbr>, width: "4.5rem", align: "end", cell: (group) => <Open n={group.open_letters} /> },
    { head: "Last", width: "6rem", phoneWidth: "5.2rem", cell: (group) => <When at={group.last_seen} /> },
    { head: "First", width: "6rem", wide: true, cell: (group) => <When at={group.first_seen} /> },
  ];
  return withOwner ? [...columns, { head: "Owner", width: "8%", wide: true, cell: (group) => <span class="cut">{group.user_id}</span> }] : columns;
}

function What({ group }: { group: ErrorGroup }) {
  if (group.fingerprint === null) return <span class="cut" title="There are 1,000 groups; all further failures are counted together."><b>Other</b> failures beyond 1,000 groups</span>;
  return <a class="main-link" href={href(`/failures/${group.fingerprint}`)} title={group.sample}><b>{group.error_type}</b> <span class="faint">{group.sample}</span></a>;
}

const MOST = 100; // as far as the API counts

export function Open({ n }: { n: number | null }) {
  if (!n) return <span class="faint">–</span>;
  return <span class="state bad"><b class="number">{n >= MOST ? `${MOST}+` : n}</b></span>;
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No group matches these filters." command="oncue errors" />;
  return <Empty title="Nothing has failed in the last 30 days." command="oncue errors --watch 10s">Attempts that fail are grouped here by task, error and message. To watch from a terminal:</Empty>;
}
