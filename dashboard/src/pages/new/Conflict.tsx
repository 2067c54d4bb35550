import { useGet } from "../../api/use";
import type { Job } from "../../api/types";
import { Button } from "../../components/Button";
import { Diff } from "../../components/Diff";
import { When } from "../../components/When";

type Props = { mine: string[]; base: Job; newest: Job; onKeep: () => void; onDrop: () => void };

/** Somebody changed the job meanwhile: who, what, and two ways on. Nothing that was typed is lost. */
export function Conflict({ mine, base, newest, onKeep, onDrop }: Props) {
  const versions = useGet("/v1/jobs/{id}/versions", { path: { id: newest.job_id }, query: { limit: 20 } });
  const theirs = versions.data?.versions.filter((one) => one.version > (base.version ?? 0)) ?? [];
  const fields = [...new Set(theirs.flatMap((one) => Object.keys(one.changes)))];
  const both = fields.filter((name) => mine.includes(name));
  const pick = (job: Job): Record<string, unknown> => Object.fromEntries(fields.map((name) => [name, (job as Record<string, unknown>)[name]]));
  return (
    <section class="conflict warn" role="alert" aria-label="The job was changed meanwhile">
      <p>
        <b>{theirs[0]?.user_id ?? "Somebody"} changed this job <When at={newest.updated_at} /> while you were editing it:</b> it is at version {newest.version}, and you began with version {base.version}.
        {both.length > 0 ? ` You both changed ${both.join(", ")}: yours would replace theirs.` : mine.length > 0 && fields.length > 0 && " You changed other fields: both changes fit together."}
      </p>
      {fields.length > 0 && <Diff label="What they changed" before={pick(base)} after={pick(newest)} />}
      <p class="form-actions">
        {mine.length > 0 && <Button kind="primary" onClick={onKeep}>Put my changes on top of theirs</Button>}
        <Button onClick={onDrop}>{mine.length > 0 ? "Drop mine, take theirs" : "Take theirs"}</Button>
      </p>
    </section>
  );
}
