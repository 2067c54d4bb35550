import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

const FIELD = "textarea, select, input:not([readonly], [disabled])";

/** A native modal dialog: the first field has the focus, which stays inside; Escape closes. Shown while it is rendered. */
export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => { // before the effects of its content, which may focus a field
    const before = document.activeElement as HTMLElement | null;
    box.current?.showModal();
    return () => before?.focus?.();
  }, []);
  const isPlaced = useRef(false);
  useLayoutEffect(() => { // whenever it is shown anew: a field may come with the answer of the server
    const wanted = box.current?.querySelector<HTMLElement>(FIELD) ?? box.current?.querySelector<HTMLElement>("footer .button");
    if (isPlaced.current || !wanted) return;
    isPlaced.current = true;
    wanted.focus({ preventScroll: true }); // what is above the field is read first
  });
  const clicked = (event: MouseEvent): void => {
    if (event.target === box.current) onClose(); // beside it
  };
  return (
    <dialog ref={box} class={wide ? "dialog broad" : "dialog"} aria-labelledby={id} onClose={onClose} onClick={clicked}>
      <div class="dialog-body">
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" class="button quiet" aria-label="Close" onClick={onClose}>✕</button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
