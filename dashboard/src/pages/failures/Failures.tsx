import { usePaged } from "../../api/use";
import { PageHead } from "../../components/PageHead";
import { Tabs } from "../../components/Tabs";
import { useEvents } from "../../live";
import { usePulse, useThrottled } from "../../refresh";
import { ownOnly } from "../../session";
import type { Params } from "../pages";
import { Group } from "./Group";
import { Groups } from "./Groups";
import { Letters } from "./Letters";

const EVERY = 2_000; // ms
const ADDED_UP_AFTER = [1_500, 6_000]; // ms: groups follow about a second later, on a busy machine some seconds
const TABS = [{ path: "/failures", label: "Groups" }, { path: "/failures/letters", label: "All dead letters" }];

/** Groups of errors, the dead letters of one, or all dead letters. */
export default function Failures({ params }: { params: Params }) {
  const groups = usePaged("/v1/errors", { query: {} }, (page) => page.errors);
  const soon = useThrottled(groups.reload, EVERY);
  const later = useThrottled(() => ADDED_UP_AFTER.forEach((wait) => setTimeout(soon, wait)), EVERY);
  usePulse((now) => now.dead_letters, later, EVERY);
  useEvents("run", (runs) => runs.some((run) => run.status === "retrying" || run.status === "dead") && later(), []);
  const fingerprint = params.fingerprint;
  if (fingerprint && fingerprint !== "letters") return <Group key={fingerprint} fingerprint={fingerprint} groups={groups} tabs={TABS} />;
  const own = groups.items.filter((group) => !ownOnly.value || group.user_id === ownOnly.value);
  return (
    <>
      <PageHead title="Failures" />
      <Tabs label="Views of failures" tabs={TABS} />
      {fingerprint ? <Letters filter={{}} /> : <Groups groups={{ ...groups, items: own }} />}
    </>
  );
}
