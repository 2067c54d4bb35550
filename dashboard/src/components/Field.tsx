import { cloneElement, type VNode } from "preact";
import { useId } from "preact/hooks";

type Props = {
  label: string;
  hint?: string;
  error?: string;
  /** One input, select or textarea. */
  children: VNode<Record<string, unknown>>;
};

/** A label, its input, a hint, and what is wrong with it; tied together for screen readers. */
export function Field({ label, hint, error, children }: Props) {
  const id = useId();
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  const input = cloneElement(children, { id, "aria-describedby": described || undefined, "aria-invalid": error ? "true" : undefined });
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {input}
      {hint && <p class="hint" id={`${id}-hint`}>{hint}</p>}
      {error && <p class="refusal" id={`${id}-error`}>{error}</p>}
    </div>
  );
}
