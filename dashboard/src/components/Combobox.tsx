import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

export type Option = { key: string; label: ComponentChildren; group?: string };
type Props = {
  label: string;
  options: Option[];
  text: string;
  onText: (text: string) => void;
  onPick: (key: string) => void;
  placeholder?: string;
  autoFocus?: boolean;
  /** Said below the list: that nothing was found, for instance. */
  note?: ComponentChildren;
};

/** A text field with a list, by the ARIA pattern: arrows move, Enter picks, Escape empties. The list is always open. */
export function Combobox({ label, options, text, onText, onPick, placeholder, autoFocus, note }: Props) {
  const id = useId();
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const current = Math.min(at, options.length - 1);
  useEffect(() => setAt(0), [text]);
  useEffect(() => void (autoFocus && input.current?.focus()), []);
  useEffect(() => document.getElementById(`${id}-${current}`)?.scrollIntoView({ block: "nearest" }), [current]);
  const pressed = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt((current + 1) % Math.max(options.length, 1));
    else if (event.key === "ArrowUp") setAt((current - 1 + options.length) % Math.max(options.length, 1));
    else if (event.key === "Enter" && options[current]) onPick(options[current].key);
    else return;
    event.preventDefault();
  };
  return (
    <div class="combobox">
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label={label}
        aria-expanded={options.length > 0}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={options[current] ? `${id}-${current}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={text}
        onInput={(event) => onText(event.currentTarget.value)}
        onKeyDown={pressed}
      />
      <div role="listbox" id={`${id}-list`} aria-label={label}>
        {options.map((option, index) => (
          <div key={option.key} id={`${id}-${index}`} role="option" aria-selected={index === current} onClick={() => onPick(option.key)}>
            {option.group && option.group !== options[index - 1]?.group && <span class="group">{option.group}</span>}
            {option.label}
          </div>
        ))}
      </div>
      {note && <p class="hint" role="status">{note}</p>}
    </div>
  );
}
