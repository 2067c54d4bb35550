import type { ComponentChildren } from "preact";
import type { Process } from "../../api/types";
import { useGet } from "../../api/use";
import { StateMark } from "../../components/StateMark";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { useEvents } from "../../live";
import { limit, spelled } from "./amounts";

export function Server() {
  const server = useGet("/v1/server");
  const processes = useGet("/v1/processes");
  useEvents("worker", processes.reload);
  const error = server.error ?? processes.error;
  if (error) return <Trouble error={error} onAgain={() => (server.reload(), processes.reload())} />;
  if (!server.data || !processes.data) return null;
  const { version, engine, schema, retention, limits, features } = server.data;
  return (
    <div class="server">
      <Facts title="What it is" of={[["Version", version], ["Database", engine], ["Schema", String(schema)], ...written(features)]} />
      <Facts title="Kept for" of={Object.entries(retention).map(([name, time]) => [spelled(name), time])} />
      <Facts title="Limits" of={Object.entries(limits).map(([name, n]) => [spelled(name), limit(name, n)])} />
      <section class="server-processes">
        <h2>{`Processes (${processes.data.processes.length})`}</h2>
        <Table label="Processes" columns={COLUMNS} rows={inOrder(processes.data.processes)} keyOf={(one) => one.process_id} />
      </section>
    </div>
  );
}

function Facts({ title, of }: { title: string; of: [string, ComponentChildren][] }) {
  return (
    <section>
      <h2>{title}</h2>
      <dl class="pairs">{of.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
    </section>
  );
}

function written(features: object): [string, string][] {
  return Object.entries(features).map(([name, value]) => [spelled(name), said(value)]);
}

function said(value: unknown): string {
  if (Array.isArray(value)) return value.length ? value.join(", ") : "none";
  return value === true ? "yes" : value === false || value === null ? "no" : String(value);
}

/** Silent ones first, then by role and host. */
function inOrder(processes: Process[]): Process[] {
  const rank = (one: Process): string => `${one.alive ? 1 : 0} ${one.role} ${one.host}`;
  return [...processes].sort((a, b) => rank(a).localeCompare(rank(b)));
}

const COLUMNS: Column<Process>[] = [
  { head: "State", width: "8.5rem", phoneWidth: "3.4rem", cell: (one) => <StateMark state={one.alive ? "active" : "no_heartbeat"} /> },
  { head: "Role", width: "7rem", cell: (one) => one.role },
  { head: "Host", cell: (one) => <span class="cut">{one.host}</span> },
  { head: "Version", width: "7rem", wide: true, cell: (one) => one.version },
  { head: "Started", width: "7rem", wide: true, cell: (one) => <When at={one.started_at} /> },
  { head: "Last heartbeat", width: "8rem", phoneWidth: "6rem", cell: (one) => <When at={one.seen_at} /> },
];
