import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { can, type Changes } from "../session";

type Props = {
  children: ComponentChildren;
  onClick?: () => unknown;
  /** What it changes: without the right to, there is no button. */
  changes?: Changes;
  kind?: "plain" | "primary" | "danger" | "quiet";
  type?: "button" | "submit";
  label?: string;
  disabled?: boolean;
  pressed?: boolean;
  title?: string;
};

/** A button that is busy while what it started runs. */
export function Button({ children, onClick, changes, kind = "plain", type = "button", label, disabled, pressed, title }: Props) {
  const [isBusy, setBusy] = useState(false);
  if (changes && !can(changes)) return null;
  const click = async (): Promise<void> => {
    if (isBusy) return;
    setBusy(true);
    try {
      await onClick?.();
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type={type} class={`button ${kind}`} onClick={onClick && click} disabled={disabled} aria-busy={isBusy} aria-label={label} aria-pressed={pressed} title={title}>
      {children}
    </button>
  );
}
