import { stateOf } from "../states";

export type Cell = {
  key: string;
  /** A state of states.ts. */
  state: string;
  /** What the cell says on hover: when, how long, why. */
  title: string;
  href?: string;
  isLate?: boolean;
};

/** Outcomes as cells, the newest at the right. Shape tells them apart too: dead ones are taller, late ones notched. */
export function Strip({ label, cells }: { label: string; cells: Cell[] }) {
  if (!cells.length) return <span class="faint">no runs yet</span>;
  const isList = cells.some((cell) => cell.href);
  const shown = cells.map((cell) => <StripCell key={cell.key} cell={cell} />);
  return isList
    ? <span class="strip" role="group" aria-label={label}>{shown}</span>
    : <span class="strip" role="img" aria-label={`${label}: ${summary(cells)}`}>{shown}</span>;
}

function StripCell({ cell }: { cell: Cell }) {
  const { tone, word } = stateOf(cell.state);
  const look = `cell ${tone} is-${cell.state}${cell.isLate ? " is-late" : ""}`;
  return cell.href
    ? <a class={look} href={cell.href} title={cell.title} aria-label={`${word}: ${cell.title}`} />
    : <i class={look} title={cell.title} />;
}

/** "18 succeeded, 2 dead" */
export function summary(cells: Cell[]): string {
  const counts = new Map<string, number>();
  for (const cell of cells) counts.set(stateOf(cell.state).word, (counts.get(stateOf(cell.state).word) ?? 0) + 1);
  return [...counts].map(([word, n]) => `${n} ${word}`).join(", ");
}
