import { useEffect, useState } from "preact/hooks";
import { call } from "../../api/client";
import { useGet } from "../../api/use";
import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";
import { Trouble } from "../../components/Trouble";
import { query } from "../../router";
import { can } from "../../session";
import { localZone } from "../../time";
import type { Params } from "../pages";
import { readDraft } from "./address";
import { Create } from "./Create";
import { draftOf, emptyDraft, type Draft } from "./draft";
import { Edit } from "./Edit";

/** A new job, a copy of one (`?from=`), or the edit of one. */
export default function New({ params }: { params: Params }) {
  const tasks = useGet("/v1/tasks");
  if (!can("jobs")) return <><PageHead title={params.id ? "Edit a job" : "New job"} /><Empty title="Your key may read only: a member's or administrator's creates and edits jobs." command="oncue keys create --user NAME --role member" /></>;
  if (tasks.error && !tasks.data) return <Trouble error={tasks.error} onAgain={tasks.reload} />;
  if (!tasks.data) return null;
  if (params.id) return <Edit id={params.id} tasks={tasks.data.tasks} />;
  return <Start tasks={tasks.data.tasks} />;
}

type Task = NonNullable<ReturnType<typeof useGet<"/v1/tasks">>["data"]>["tasks"][number];
export type Tasks = Task[];

function Start({ tasks }: { tasks: Tasks }) {
  const from = query.value.get("from");
  const kept = readDraft(location.hash);
  const [draft, setDraft] = useState<Draft | null>(kept ?? (from ? null : { ...emptyDraft(localZone), task: query.value.get("task") ?? "" }));
  useEffect(() => {
    if (!from || kept) return;
    void call("get", "/v1/jobs/{id}", { path: { id: from } }).then((answer) => setDraft(answer.ok ? draftOf(answer.value, true) : emptyDraft(localZone)));
  }, [from]);
  if (!tasks.length) return <><PageHead title="New job" /><Empty title="No worker has registered a task yet: start one, and its tasks are here." command="oncue up --tasks tasks.py" /></>;
  return draft && <Create tasks={tasks} first={draft} />;
}
