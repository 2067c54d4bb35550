import { useGet } from "../../api/use";
import type { Job as JobType } from "../../api/types";
import { Copy } from "../../components/Copy";
import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";
import { StateMark } from "../../components/StateMark";
import { Tabs } from "../../components/Tabs";
import { Trouble } from "../../components/Trouble";
import { WhyChain } from "../../components/WhyChain";
import { When } from "../../components/When";
import { useEvents } from "../../live";
import { callJob } from "../../names";
import { href } from "../../router";
import { isRecurring, scheduleWords } from "../../schedules";
import { stateOfJob } from "../../states";
import type { Params } from "../pages";
import { Actions } from "./Actions";
import { AuditTab } from "./AuditTab";
import { DefinitionTab } from "./DefinitionTab";
import { LedgerTab } from "./LedgerTab";
import { RunsTab } from "./RunsTab";
import { TimelineTab } from "./TimelineTab";

export default function Job({ params }: { params: Params }) {
  const id = params.id!;
  const job = useGet("/v1/jobs/{id}", { path: { id } });
  useEvents("job", (events) => events.some((one) => one.job_id === id) && job.reload(), [id]);
  useEvents("run", (events) => events.some((one) => one.job_id === id) && job.reload(), [id]); // its last run
  if (job.error && !job.data) return <Trouble error={job.error} onAgain={job.reload} />;
  if (!job.data) return null;
  const { title: name, id: sameName } = callJob(job.data);
  return (
    <>
      <PageHead title={name} id={sameName} note={<Facts job={job.data} />}><Actions job={job.data} name={name} onChange={job.reload} /></PageHead>
      <LastFailure job={job.data} />
      <WhyChain of={{ jobId: id }} queue={job.data.queue} labels={job.data.labels} />
      <Tabs label={`Views of ${name}`} tabs={tabsOf(job.data)} />
      <Tab job={job.data} tab={params.tab ?? (isRecurring(job.data.schedule) ? "timeline" : "runs")} />
    </>
  );
}

/** A job that runs once has neither a timeline nor a ledger. */
function tabsOf(job: JobType) {
  const at = `/jobs/${job.job_id}`;
  const rest = [{ path: `${at}/definition`, label: "Definition" }, { path: `${at}/audit`, label: "Audit" }];
  if (!isRecurring(job.schedule)) return [{ path: at, label: "Runs" }, ...rest];
  return [{ path: at, label: "Timeline" }, { path: `${at}/ledger`, label: "Ledger" }, { path: `${at}/runs`, label: "Runs" }, ...rest];
}

function Tab({ job, tab }: { job: JobType; tab: string }) {
  const zone = job.schedule.timezone;
  switch (tab) {
    case "timeline": return <TimelineTab job={job} />;
    case "ledger": return <LedgerTab jobId={job.job_id} zone={zone} />;
    case "runs": return <RunsTab jobId={job.job_id} zone={zone} />;
    case "definition": return <DefinitionTab job={job} />;
    case "audit": return <AuditTab jobId={job.job_id} />;
    default: return <Empty title="This job has no such view." command={`oncue jobs show ${job.job_id}`} />;
  }
}

function Facts({ job }: { job: JobType }) {
  return (
    <p class="facts">
      <StateMark state={stateOfJob(job)} />
      {job.task !== callJob(job).title && <span>{job.task}</span>}
      <span title={job.schedule.cron ?? undefined}>{scheduleWords(job.schedule)}{isRecurring(job.schedule) && <span class="faint"> {job.schedule.timezone}</span>}</span>
      {job.next_run_at && job.status === "active" && <span>next <b><When at={job.next_run_at} zone={job.schedule.timezone} focusable /></b></span>}
      {job.queue !== "default" && <span><span class="faint">queue</span> {job.queue}</span>}
      {job.tags.map((tag) => <a key={tag} class="tag" href={href("/jobs", { tag })}>{tag}</a>)}
      <span class="faint"><code>{job.job_id}</code><Copy text={job.job_id} what="the id" /></span>
    </p>
  );
}

/** The reason of a failing job, where one looks first. */
function LastFailure({ job }: { job: JobType }) {
  const run = job.last_run;
  if (!run || !["dead", "retrying"].includes(run.status)) return null;
  return (
    <p class={`last-failure ${run.status === "dead" ? "bad" : "warn"}`}>
      <StateMark state={run.status} />
      <span>Its {isRecurring(job.schedule) && "last "}run {run.status === "dead" ? <>died <When at={run.end_time} zone={job.schedule.timezone} /></> : "failed and will be tried again"}: <b>{run.error_type ?? "no error is known"}</b>{run.error_message && <> {run.error_message}</>}</span>
      <a href={href(`/runs/${run.run_id}`)}>See the run</a>
    </p>
  );
}
