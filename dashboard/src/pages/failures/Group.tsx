import { useEffect } from "preact/hooks";
import type { Paged } from "../../api/use";
import type { ErrorGroup } from "../../api/types";
import { Copy } from "../../components/Copy";
import { PageHead } from "../../components/PageHead";
import { Tabs, type Tab } from "../../components/Tabs";
import { Trend } from "../../components/Trend";
import { When } from "../../components/When";
import { href } from "../../router";
import { Letters } from "./Letters";

/** One group of errors, and its dead letters. */
export function Group({ fingerprint, groups, tabs }: { fingerprint: string; groups: Paged<ErrorGroup>; tabs: Tab[] }) {
  const found = groups.items.filter((group) => group.fingerprint === fingerprint);
  const group = found[0];
  useEffect(() => {
    if (!group && groups.hasMore) groups.more(); // it is further back
  }, [groups.items.length]);
  const title = group?.error_type ?? "Group of errors";
  return (
    <>
      <PageHead title={title} note={group && <Facts groups={found} />} />
      <Tabs label="Views of failures" tabs={[...tabs, { path: `/failures/${fingerprint}`, label: title }]} />
      {group && <p class="why bad-edge">{group.sample}</p>}
      {!group && !groups.loading && !groups.hasMore && <p class="why">This group is gone: a group is kept for 30 days after its last failure. Its dead letters, if there are any, are listed here.</p>}
      <Letters filter={{ fingerprint }} />
    </>
  );
}

/** Several users may have the same error: then their numbers are added. */
function Facts({ groups }: { groups: ErrorGroup[] }) {
  const first = groups[0]!;
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  const trend = first.trend.map((_, hour) => groups.reduce((sum, group) => sum + (group.trend[hour] ?? 0), 0));
  const seen = groups.map((group) => group.last_seen).sort();
  const begun = groups.map((group) => group.first_seen).sort();
  return (
    <p class="facts">
      {first.task && <span>task <a href={href("/jobs", { task: first.task })}>{first.task}</a></span>}
      <span><b class="number">{count.toLocaleString("en")}</b> {count === 1 ? "failure" : "failures"}</span>
      <span>last <When at={seen.at(-1)} focusable /></span>
      <span>first <When at={begun[0]} focusable /></span>
      <span><Trend counts={trend} label="Failures" /> <span class="faint">last 24 h</span></span>
      <span class="faint"><code>{first.fingerprint}</code><Copy text={first.fingerprint!} what="the fingerprint" /></span>
    </p>
  );
}
