import { usePaged } from "../../api/use";
import type { Job, Schemas } from "../../api/types";
import { Json } from "../../components/Code";
import { Diff } from "../../components/Diff";
import { LookedBack } from "../../components/LookedBack";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { useEvents } from "../../live";
import { query } from "../../router";

type Version = Schemas["JobVersion"];

/** All definitions that the job has and had; of the chosen one what it changed, and the whole. */
export function DefinitionTab({ job }: { job: Job }) {
  const versions = usePaged("/v1/jobs/{id}/versions", { path: { id: job.job_id } }, (page) => page.versions);
  useEvents("job", (events) => events.some((one) => one.job_id === job.job_id) && versions.reload(), [job.job_id]);
  if (versions.error && !versions.items.length) return <Trouble error={versions.error} onAgain={versions.reload} />;
  const wanted = Number(query.value.get("version")) || versions.items[0]?.version;
  const at = versions.items.findIndex((one) => one.version === wanted);
  const chosen = versions.items[at];
  return (
    <div class="versions">
      <nav aria-label="Versions">
        {versions.items.map((one) => <VersionLink key={one.version} version={one} isChosen={one === chosen} />)}
        <LookedBack to={versions.lookedBackTo} hasMore={versions.hasMore} onMore={versions.more} />
      </nav>
      {chosen && <Definition version={chosen} before={versions.items[at + 1]} />}
      {!chosen && !versions.loading && <p class="faint">Version {wanted} is not kept any more: definitions are kept as long as runs are.</p>}
    </div>
  );
}

function VersionLink({ version, isChosen }: { version: Version; isChosen: boolean }) {
  const fields = Object.keys(version.changes);
  const all = new URLSearchParams(query.value);
  all.set("version", String(version.version));
  return (
    <a href={`?${all}`} aria-current={isChosen ? "true" : undefined}>
      <span class="version-head"><b>Version {version.version}</b>{version.until === null && <span class="faint">now</span>}</span>
      <span class="faint">{version.since ? <When at={version.since} /> : "its beginning is forgotten"}{version.user_id && <> by {version.user_id}</>}</span>
      <span class="cut">{fields.length ? fields.join(", ") : version.version === 1 ? "created" : "changes are not known"}</span>
    </a>
  );
}

function Definition({ version, before }: { version: Version; before?: Version }) {
  const fields = Object.entries(version.changes);
  return (
    <div class="definition">
      {fields.length > 0 && (
        <section aria-labelledby="changed">
          <h2 id="changed">What version {version.version} changed</h2>
          {before
            ? <Diff label={`Version ${before.version} against ${version.version}`} before={only(before.definition, fields)} after={only(version.definition, fields)} />
            : <Diff label={`Changes of version ${version.version}`} before={Object.fromEntries(fields.map(([name, one]) => [name, one.old]))} after={Object.fromEntries(fields.map(([name, one]) => [name, one.new]))} />}
        </section>
      )}
      <section aria-labelledby="whole">
        <h2 id="whole">The whole definition</h2>
        <Json value={version.definition} label={`Definition of version ${version.version}`} />
      </section>
    </div>
  );
}

function only(definition: Record<string, unknown>, fields: [string, unknown][]): Record<string, unknown> {
  return Object.fromEntries(fields.map(([name]) => [name, definition[name]]));
}
