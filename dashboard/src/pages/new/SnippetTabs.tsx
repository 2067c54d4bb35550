import { useState } from "preact/hooks";
import { Code } from "../../components/Code";
import type { Snippets } from "./snippets";

const KINDS = ["CLI", "curl", "Python", "YAML"] as const;

/** The same thing for a terminal, a program or a repository. */
export function SnippetTabs({ snippets }: { snippets: Snippets }) {
  const [kind, setKind] = useState<(typeof KINDS)[number]>("CLI");
  return (
    <section class="snippets">
      <header>
        <h2>The same as</h2>
        <div class="chips" role="group" aria-label="Language">
          {KINDS.map((one) => <button key={one} type="button" class="chip" aria-pressed={one === kind} onClick={() => setKind(one)}>{one}</button>)}
        </div>
      </header>
      <Code text={snippets[kind]} label={kind} />
      {kind === "YAML" && <p class="hint">Keep it in a file, and run <code>oncue apply jobs.yaml</code>.</p>}
    </section>
  );
}
