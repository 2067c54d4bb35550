import type { Signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { BulkOf, DeadLetter } from "../../api/types";
import { askBulk } from "../../components/Bulk";
import { Button } from "../../components/Button";
import { runName } from "../../names";
import { can } from "../../session";
import { type LetterFilter } from "./Letters";
import { PatchMany, type Target } from "./PatchMany";

type Props = { letters: DeadLetter[]; chosen: Signal<ReadonlySet<string>>; filter: LetterFilter; onDone: () => void };

/** What can be done with the chosen letters, or with all that match, also those that are not shown. */
export function LettersBar({ letters, chosen, filter, onDone }: Props) {
  const [patching, setPatching] = useState<{ target: Target; samples: DeadLetter[] } | null>(null);
  const some = letters.filter((letter) => chosen.value.has(letter.run_id));
  if (!can("letters")) return null;
  const target: Target = some.length ? { ids: some.map((letter) => letter.run_id) } : { filter };
  const clear = (): void => void (chosen.value = new Set());
  const act = (action: "requeue" | "discard", verb: string): Promise<void> => askBulk({
    of: { action, ...target } as BulkOf,
    verb,
    cli: `dead ${action}`,
    nouns: ["dead letter", "dead letters"],
    isDangerous: action === "discard",
    nameOf: (id) => letters.filter((letter) => letter.run_id === id).map(runName)[0],
    after: () => (clear(), onDone()),
  });
  return (
    <>
      {letters.length > 0 && (
        <div class="bulk-bar" role="toolbar" aria-label="Act on many dead letters">
          <span>{some.length ? `${some.length} chosen` : allOf(filter)}</span>
          <Button changes="letters" kind="primary" onClick={() => act("requeue", "Run again")}>Run again</Button>
          <Button changes="letters" onClick={() => setPatching({ target, samples: some.length ? some : letters })}>Change and run again</Button>
          <Button changes="letters" kind="danger" onClick={() => act("discard", "Discard")}>Discard</Button>
          {some.length > 0 && <Button kind="quiet" onClick={clear}>Clear</Button>}
        </div>
      )}
      {patching && <PatchMany {...patching} onClose={() => setPatching(null)} onDone={() => (clear(), onDone())} />}
    </>
  );
}

function allOf(filter: LetterFilter): string {
  const { fingerprint, user_id, ...others } = filter;
  if (Object.values(others).some(Boolean)) return "All that match";
  if (fingerprint) return user_id ? "All of yours in this group" : "All of this group";
  return user_id ? "All of your dead letters" : "All dead letters";
}
