import { call } from "../../api/client";
import { useGet } from "../../api/use";
import type { Job as JobType } from "../../api/types";
import { command } from "../../commands";
import { Button } from "../../components/Button";
import { ask } from "../../components/Confirm";
import { Copy } from "../../components/Copy";
import { PageHead } from "../../components/PageHead";
import { StateMark } from "../../components/StateMark";
import { Tabs } from "../../components/Tabs";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { useEvents } from "../../live";
import { href } from "../../router";
import { scheduleWords } from "../../schedules";
import { can } from "../../session";
import { tell } from "../../toasts";
import type { Params } from "../pages";
import { RunsTab } from "./RunsTab";
import { WhyChain } from "../../components/WhyChain";

export default function Job({ params }: { params: Params }) {
  const id = params.id!;
  const job = useGet("/v1/jobs/{id}", { path: { id } });
  useEvents("job", (events) => events.some((one) => one.job_id === id) && job.reload(), [id]);
  if (job.error && !job.data) return <Trouble error={job.error} onAgain={job.reload} />;
  if (!job.data) return null;
  const name = job.data.name ?? job.data.key ?? `job …${id.slice(-8)}`;
  return (
    <>
      <PageHead title={name} note={<Facts job={job.data} />}><Actions job={job.data} name={name} onChange={job.reload} /></PageHead>
      <WhyChain of={{ jobId: id }} queue={job.data.queue} labels={job.data.labels} />
      <Tabs label={`Views of ${name}`} tabs={[{ path: `/jobs/${id}`, label: "Runs" }]} />
      <RunsTab jobId={id} zone={job.data.schedule.timezone} />
    </>
  );
}

function Facts({ job }: { job: JobType }) {
  return (
    <p class="facts">
      <StateMark state={job.status} />
      <span>{job.task}</span>
      <span title={job.schedule.cron ?? undefined}>{scheduleWords(job.schedule)} <span class="faint">{job.schedule.timezone}</span></span>
      {job.next_run_at && <span>next <When at={job.next_run_at} zone={job.schedule.timezone} focusable /></span>}
      <span class="faint"><code>{job.job_id}</code><Copy text={job.job_id} what="the id" /></span>
    </p>
  );
}

function Actions({ job, name, onChange }: { job: JobType; name: string; onChange: () => void }) {
  const id = job.job_id;
  const isOpen = job.status === "active" || job.status === "paused";
  const runNow = async (): Promise<void> => void tell(await call("post", "/v1/jobs/{id}/runNow", { path: { id }, body: {} }), `${name}: a run starts now.`);
  const pause = async (): Promise<void> => void (tell(await call("post", "/v1/jobs/{id}/pause", { path: { id } }), `${name} is paused.`) && onChange());
  const resume = async (): Promise<void> => void (tell(await call("post", "/v1/jobs/{id}/resume", { path: { id }, body: {} }), `${name} goes on.`) && onChange());
  const cancel = (): void => ask({
    title: `Cancel ${name}?`,
    hits: <p>No run of this job starts any more, and those that are running are stopped. This cannot be undone.</p>,
    command: command("jobs cancel", [id]),
    label: "Cancel the job",
    isDangerous: true,
    act: () => call("delete", "/v1/jobs/{id}", { path: { id } }),
    done: `${name} is cancelled.`,
    after: onChange,
  });
  if (!isOpen || !can("jobs")) return null;
  return (
    <>
      <Button changes="jobs" onClick={runNow}>Run now</Button>
      {job.status === "active" ? <Button changes="jobs" onClick={pause}>Pause</Button> : <Button changes="jobs" onClick={resume}>Resume</Button>}
      <a class="button plain" href={href(`/jobs/${id}/edit`)}>Edit</a>
      <Button changes="jobs" kind="danger" onClick={cancel}>Cancel</Button>
    </>
  );
}
