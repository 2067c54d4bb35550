import { query, setQuery } from "../router";

type Props = { label: string; param: string; choices: string[]; fallback: string; words?: Record<string, string> };

/** One of a few, bound to the URL: a window of time, a kind of view. */
export function Choice({ label, param, choices, fallback, words = {} }: Props) {
  const chosen = query.value.get(param) ?? fallback;
  return (
    <div class="chips" role="group" aria-label={label}>
      {choices.map((choice) => (
        <button key={choice} type="button" class="chip" aria-pressed={choice === chosen} onClick={() => setQuery({ [param]: choice === fallback ? undefined : choice })}>
          {words[choice] ?? choice}
        </button>
      ))}
    </div>
  );
}
