import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";
import { Tabs } from "../../components/Tabs";
import { Trouble } from "../../components/Trouble";
import { path } from "../../router";
import type { Params } from "../pages";
import { FitMatrix } from "./FitMatrix";
import { useFleet, type Fleet } from "./fleet";
import { Processes } from "./Processes";
import { Queue } from "./Queue";
import { QueuesTable } from "./QueuesTable";
import { Worker } from "./Worker";
import { WorkersTable } from "./WorkersTable";

const TABS = [{ path: "/queues", label: "Queues" }, { path: "/workers", label: "Workers and processes" }];

/** Queues and who can run what; workers and processes; one queue; one worker. */
export default function Queues({ params }: { params: Params }) {
  const fleet = useFleet();
  const trouble = fleet.error && <Trouble error={fleet.error} onAgain={fleet.reload} />;
  if (params.name) return <>{trouble}<Queue key={params.name} name={params.name} fleet={fleet} /></>;
  if (params.id) return <>{trouble}<Worker key={params.id} id={params.id} fleet={fleet} /></>;
  return (
    <>
      <PageHead title="Queues & workers" />
      <Tabs label="Views of the fleet" tabs={TABS} />
      {trouble}
      {fleet.isLoaded && (path.value === "/workers" ? <AllWorkers fleet={fleet} /> : <AllQueues fleet={fleet} />)}
    </>
  );
}

function AllQueues({ fleet }: { fleet: Fleet }) {
  if (!fleet.queues.length) return <Empty title="There are no queues yet." command="oncue worker --tasks FILE.py --queues default">A queue exists once a job or a worker names it. To start a worker:</Empty>;
  return <><QueuesTable fleet={fleet} /><FitMatrix fleet={fleet} /></>;
}

function AllWorkers({ fleet }: { fleet: Fleet }) {
  return (
    <>
      {fleet.workers.length ? <WorkersTable fleet={fleet} /> : <Empty title="No worker is registered: nothing runs." command="oncue worker --tasks FILE.py" />}
      <Processes />
    </>
  );
}
