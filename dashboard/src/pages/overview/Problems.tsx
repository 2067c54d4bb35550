import { call } from "../../api/client";
import type { Schemas } from "../../api/types";
import { Button } from "../../components/Button";
import { Copy } from "../../components/Copy";
import { When } from "../../components/When";
import { Words } from "../../components/Words";
import { href } from "../../router";
import { tell } from "../../toasts";
import { queueOf, viewOf } from "./views";

type Known = Schemas["KnownProblem"];

/** What is wrong, in words, each with its remedy. */
export function Problems({ problems, more, onDone }: { problems: Known[]; more: boolean; onDone: () => void }) {
  return (
    <section aria-label="Problems">
      <ul class="problems">{problems.map((one) => <One key={one.kind + one.title} problem={one} onDone={onDone} />)}</ul>
      {more && <p class="looked-back">These are the 50 most severe; there are more.</p>}
    </section>
  );
}

function One({ problem, onDone }: { problem: Known; onDone: () => void }) {
  const isSevere = problem.severity === "problem";
  const view = viewOf(problem.link);
  return (
    <li class={`problem ${isSevere ? "bad" : "warn"}`}>
      <span class="glyph" title={problem.severity} aria-hidden="true">{isSevere ? "✕" : "!"}</span>
      <div class="problem-text">
        <h2><span class="for-readers">{problem.severity}: </span>{problem.title}</h2>
        <p><Words text={problem.detail} /> {problem.since && <span class="faint">It began <When at={problem.since} focusable />.</span>}</p>
        <p class="remedy"><Words text={problem.remedy} /> <span class="remedy-command"><code>{problem.command}</code><Copy text={problem.command} what="the command" /></span></p>
      </div>
      <div class="actions">
        <Act problem={problem} onDone={onDone} />
        {view && <a class="button" href={href(view.path, view.params)}>{view.label}</a>}
      </div>
    </li>
  );
}

/** The one problem that a click mends. */
function Act({ problem, onDone }: { problem: Known; onDone: () => void }) {
  const queue = problem.kind === "paused_queue" ? queueOf(problem.link) : null;
  if (!queue) return null;
  const resume = async (): Promise<void> => {
    if (tell(await call("post", "/v1/queues/{queue}/resume", { path: { queue } }), `The queue ${queue} is resumed.`)) onDone();
  };
  return <Button changes="queues" kind="primary" onClick={resume}>Resume the queue</Button>;
}
