import { useId } from "preact/hooks";
import { query, setQuery } from "../router";
import { stateOf } from "../states";

/** `choices`: chips, several at a time unless `one`, `fallback` if the URL names none; without choices, a text field. `param` is its name in the URL. */
export type Filter = {
  param: string; label: string; choices?: string[]; one?: boolean; suggestions?: string[]; placeholder?: string; fallback?: string;
  /** What to say after a choice: how many there are. */
  notes?: Record<string, string>;
  /** What to call a choice or a suggestion. */
  names?: Record<string, string>;
};

/** Filters bound to the URL: reload, Back and a link to a colleague show the same. */
export function Filters({ filters }: { filters: Filter[] }) {
  const active = filters.filter((filter) => query.value.has(filter.param));
  const clear = (): void => setQuery(Object.fromEntries(filters.map((filter) => [filter.param, undefined])));
  return (
    <div class="filters" role="search" aria-label="Filters">
      {filters.map((filter) => (filter.choices ? <Chips key={filter.param} filter={filter} /> : <Text key={filter.param} filter={filter} />))}
      {active.length > 0 && <button type="button" class="button quiet" onClick={clear}>Clear</button>}
    </div>
  );
}

function Chips({ filter }: { filter: Filter }) {
  const chosen = (query.value.get(filter.param) ?? filter.fallback ?? "").split(",").filter(Boolean);
  const toggle = (choice: string): void => {
    const others = filter.one ? [] : chosen.filter((one) => one !== choice);
    setQuery({ [filter.param]: (chosen.includes(choice) && choice !== filter.fallback ? others : [...others, choice].filter((one) => one !== filter.fallback)).join(",") });
  };
  return (
    <div class="chips" role="group" aria-label={filter.label}>
      {filter.choices!.map((choice) => (
        <button key={choice} type="button" class="chip" aria-pressed={chosen.includes(choice)} onClick={() => toggle(choice)}>
          {filter.names?.[choice] ?? stateOf(choice).word}{filter.notes?.[choice] && <> <span class="chip-note">{filter.notes[choice]}</span></>}
        </button>
      ))}
    </div>
  );
}

function Text({ filter }: { filter: Filter }) {
  const list = useId();
  const value = query.value.get(filter.param) ?? "";
  return (
    <>
      <input
        key={value}
        type="search"
        class={value ? "filter-text is-set" : "filter-text"}
        aria-label={filter.label}
        placeholder={filter.placeholder ?? filter.label}
        list={filter.suggestions ? list : undefined}
        defaultValue={value}
        onChange={(event) => setQuery({ [filter.param]: event.currentTarget.value.trim() })}
      />
      {filter.suggestions && <datalist id={list}>{filter.suggestions.map((one) => <option key={one} value={one}>{filter.names?.[one]}</option>)}</datalist>}
    </>
  );
}
