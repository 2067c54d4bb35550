import { close, toasts } from "../toasts";

/** Messages; read out politely, trouble at once. */
export function Toasts() {
  return (
    <div class="toasts">
      <div role="status" aria-live="polite">{toasts.value.filter((one) => !one.isTrouble).map((one) => <Toast key={one.id} {...one} />)}</div>
      <div role="alert">{toasts.value.filter((one) => one.isTrouble).map((one) => <Toast key={one.id} {...one} />)}</div>
    </div>
  );
}

function Toast({ id, text, isTrouble }: { id: number; text: string; isTrouble: boolean }) {
  return (
    <p class={isTrouble ? "toast bad" : "toast"}>
      {text} <button type="button" class="button quiet" aria-label="Close this message" onClick={() => close(id)}>✕</button>
    </p>
  );
}
