import { signal } from "@preact/signals";
import { Dialog } from "../components/Dialog";
import { RAIL } from "../pages/pages";

const IS_MAC = /^(Mac|iP)/.test(navigator.platform);
export const isHelpOpen = signal(false);

/** All keys. */
export function Help() {
  const keys: [string, string][] = [
    [`/  or  ${IS_MAC ? "⌘K" : "Ctrl K"}`, "search"],
    ...RAIL.map((item): [string, string] => [`g ${item.letter}`, item.label]),
    ["j  k", "next and previous row"],
    ["Enter", "open the row"],
    ["x", "choose the row"],
    ["Esc", "close"],
    ["?", "this list"],
  ];
  return (
    <Dialog title="Keys" onClose={() => (isHelpOpen.value = false)}>
      <dl class="keys">{keys.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
    </Dialog>
  );
}
