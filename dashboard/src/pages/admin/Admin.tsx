import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";
import { Tabs } from "../../components/Tabs";
import { isAdmin } from "../../session";
import type { Params } from "../pages";
import { Audit } from "./Audit";
import { Findings } from "./Findings";
import { Keys } from "./Keys";
import { Server } from "./Server";
import { Users } from "./Users";

const VIEWS = [
  { tab: "keys", label: "Keys", view: Keys, forAdmins: true },
  { tab: "users", label: "Users", view: Users, forAdmins: true },
  { tab: "audit", label: "Audit log", view: Audit },
  { tab: "server", label: "Server", view: Server },
  { tab: "findings", label: "Findings", view: Findings, forAdmins: true },
];

/** Each role sees what is for it: members and viewers their own audit log, and the server. */
export default function Admin({ params }: { params: Params }) {
  const views = VIEWS.filter((one) => isAdmin.value || !one.forAdmins);
  const first = views[0]!.tab;
  const chosen = views.find((one) => one.tab === (params.tab ?? first));
  const pathOf = (tab: string): string => (tab === first && !params.tab ? "/admin" : `/admin/${tab}`);
  return (
    <>
      <PageHead title="Admin" />
      <Tabs label="Parts of Admin" tabs={views.map(({ tab, label }) => ({ path: pathOf(tab), label }))} />
      {chosen ? <chosen.view /> : <Empty title="This needs an admin key." command="oncue keys create --user NAME --role admin --engine URL" />}
    </>
  );
}
