import { useGet } from "../../api/use";
import type { Process } from "../../api/types";
import { StateMark } from "../../components/StateMark";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { usePulse } from "../../refresh";

const EVERY = 10_000; // ms: a process counts as gone after 30 s

const ROLES: Record<string, string> = { up: "all in one (up)", api: "API", scheduler: "scheduler", worker: "worker" };

/** Every process of oncue: schedulers and APIs, too. */
export function Processes() {
  const processes = useGet("/v1/processes");
  usePulse((now) => now.at, processes.reload, EVERY);
  if (processes.error && !processes.data) return <Trouble error={processes.error} onAgain={processes.reload} />;
  const all = (processes.data?.processes ?? []).toSorted((a, b) => Number(a.alive) - Number(b.alive));
  const versions = new Set(all.filter((one) => one.alive).map((one) => one.version));
  return (
    <section aria-labelledby="processes">
      <header class="section-head">
        <h2 id="processes">Processes</h2>
        {versions.size > 1 && <span class="state warn"><span class="glyph" aria-hidden="true">!</span><span class="word">different versions run: {[...versions].join(", ")}</span></span>}
      </header>
      <table class="plain-table">
        <thead><tr><th scope="col">Status</th><th scope="col">Role</th><th scope="col">Host</th><th scope="col">Heartbeat</th><th scope="col" class="wide">Started</th><th scope="col" class="wide">Version</th><th scope="col" class="wide">Schema</th></tr></thead>
        <tbody>{all.map((one) => <Line key={one.process_id} one={one} />)}</tbody>
      </table>
      <p class="footnote">A process that was killed stays listed for an hour.</p>
    </section>
  );
}

function Line({ one }: { one: Process }) {
  return (
    <tr>
      <td><StateMark state={one.alive ? "active" : "no_heartbeat"} /></td>
      <td>{ROLES[one.role] ?? one.role}</td>
      <td>{one.host}</td>
      <td><When at={one.seen_at} /></td>
      <td class="wide"><When at={one.started_at} /></td>
      <td class="wide">{one.version}</td>
      <td class="wide number">{one.schema}</td>
    </tr>
  );
}
