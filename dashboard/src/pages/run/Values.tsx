import { urlOf } from "../../api/client";
import type { WholeRun } from "../../api/types";
import { Json } from "../../components/Code";

/** Payload and result; large ones by link. */
export function Values({ run }: { run: WholeRun }) {
  return (
    <div class="values">
      <Value run={run} name="payload" title="Payload" />
      {run.status === "succeeded" && <Value run={run} name="result" title="Result" />}
    </div>
  );
}

function Value({ run, name, title }: { run: WholeRun; name: "payload" | "result"; title: string }) {
  const size = run.large[name];
  const isMissing = name === "result" && run.degraded.includes("result");
  return (
    <div>
      <h2>{title}</h2>
      {isMissing ? <p class="faint">The run succeeded, but its result could not be kept.</p>
        : size === undefined ? <Json value={run[name]} label={title} />
        : <p><a href={urlOf(`/v1/runs/{id}/${name}`, { path: { id: run.run_id } })} target="_blank" rel="noreferrer">{bytes(size)} of JSON</a> <span class="faint">too large to be shown here</span></p>}
    </div>
  );
}

function bytes(size: number): string {
  return size < 1_048_576 ? `${Math.ceil(size / 1_024)} KiB` : `${(size / 1_048_576).toFixed(1)} MiB`;
}
