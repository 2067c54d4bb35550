import { stateOf } from "../states";

/** Glyph and word of a state; `short`: the glyph, and the word for screen readers and on hover. */
export function StateMark({ state, short = false }: { state: string; short?: boolean }) {
  const { glyph, word, tone } = stateOf(state);
  return (
    <span class={`state ${tone} is-${state}`} title={short ? word : undefined}>
      <span class="glyph" aria-hidden="true">{glyph}</span>
      <span class={short ? "for-readers" : "word"}>{word}</span>
    </span>
  );
}
