import type { Worker } from "../../api/types";
import { StateMark } from "../../components/StateMark";
import { Table, type Column } from "../../components/Table";
import { When } from "../../components/When";
import { href } from "../../router";
import { can } from "../../session";
import { DrainButton } from "./actions";
import type { Fleet } from "./fleet";

export function WorkersTable({ fleet, workers = fleet.workers }: { fleet: Fleet; workers?: Worker[] }) {
  return <Table label="Workers" columns={columnsOf(fleet)} rows={troubledFirst(workers)} keyOf={(worker) => worker.worker_id} />;
}

const RANK: Record<string, number> = { no_heartbeat: 0, draining: 1, active: 2 };

function troubledFirst(workers: Worker[]): Worker[] {
  return workers.toSorted((a, b) => (RANK[a.status ?? ""] ?? 3) - (RANK[b.status ?? ""] ?? 3) || (a.name ?? "").localeCompare(b.name ?? "", "en", { numeric: true }));
}

function columnsOf(fleet: Fleet): Column<Worker>[] {
  const columns: Column<Worker>[] = [
    { head: "Status", width: "8.5rem", phoneWidth: "3.4rem", cell: (worker) => <StateMark state={worker.status ?? "active"} /> },
    { head: "Worker", cell: (worker) => <Name worker={worker} /> },
    { head: "Running", width: "5rem", align: "end", cell: (worker) => (worker.running ? <span class="number">{worker.running}</span> : <span class="faint">–</span>) },
    { head: "Slots in use", width: "18.5rem", wide: true, cell: (worker) => <Slots worker={worker} /> },
    { head: <abbr title="memory that its runs asked for, of what it has">Memory</abbr>, width: "8.5rem", align: "end", wide: "very", cell: (worker) => <Memory worker={worker} /> },
    { head: "Queues", width: "11%", wide: "very", cell: (worker) => <span class="cut" title={worker.queues.join(", ")}>{worker.queues.join(", ")}</span> },
    { head: "Heartbeat", width: "6rem", cell: (worker) => <When at={worker.seen_at} /> },
    { head: "Version", width: "5rem", wide: "very", cell: (worker) => worker.version ?? "old" },
  ];
  const act: Column<Worker> = { head: <span class="for-readers">Actions</span>, width: "6.5rem", align: "end", wide: true, cell: (worker) => <DrainButton worker={worker} fleet={fleet} /> };
  return can("workers") ? [...columns, act] : columns;
}

function Name({ worker }: { worker: Worker }) {
  return (
    <span class="name-and-note">
      <a class="main-link" href={href(`/workers/${worker.worker_id}`)}>{worker.name ?? worker.worker_id.slice(-8)}</a>
      {worker.labels.map((label) => <code key={label} class="needs wide">{label}</code>)}
    </span>
  );
}

/** A bar for each kind of slot: how many of how many are in use. */
export function Slots({ worker }: { worker: Worker }) {
  return (
    <span class="slots">
      {Object.entries(worker.slots).map(([kind, all]) => {
        const used = all - (worker.free_slots[kind] ?? all);
        return (
          <span key={kind} class={`slot ${used >= all ? "warn" : used ? "running" : "quiet"}`}>
            {kind} <i class="meter" aria-hidden="true"><i style={{ width: `${all ? (100 * used) / all : 0}%` }} /></i> <span class="number">{used}/{all}</span>
          </span>
        );
      })}
    </span>
  );
}

export function Memory({ worker }: { worker: Worker }) {
  const has = (worker.offer as { resources?: { memory_mb: number } } | null)?.resources?.memory_mb;
  const used = worker.resources_used?.memory_mb;
  if (!has) return <span class="faint">–</span>;
  return <span class="number">{(used ?? 0).toLocaleString("en")} <span class="faint">of {has.toLocaleString("en")} MB</span></span>;
}
