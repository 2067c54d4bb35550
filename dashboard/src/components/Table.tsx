import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../keys";

export type Column<T> = {
  head: ComponentChildren;
  cell: (row: T) => ComponentChildren;
  /** Like "8rem" or "20%"; without one, a share of the rest. */
  width?: string;
  /** Another width on a phone; states are shown without their word there. */
  phoneWidth?: string;
  align?: "end";
  /** Left out on a phone; "very": also on a small screen. */
  wide?: boolean | "very";
};

type Props<T> = {
  /** What the table lists, for screen readers. */
  label: string;
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string;
  /** What to call one row, in the label of its checkbox. */
  nameOf?: (row: T) => string;
  /** Keys of chosen rows: with it, rows have checkboxes (x). */
  chosen?: Signal<ReadonlySet<string>>;
  /** Called when the end comes near. */
  onEnd?: () => void;
  /** Dimmed, while rows are of an earlier question. */
  isStale?: boolean;
};

const SPARE = 10; // rows beyond the edges of the screen

/** A table of any length: rows have one height, and only those near the screen exist. j and k move, Enter opens, x chooses. */
export function Table<T>(props: Props<T>) {
  const { label, columns, rows, keyOf, chosen, isStale } = props;
  const box = useRef<HTMLTableElement>(null);
  const { first, last, height } = useVisible(box, rows.length, props.onEnd);
  const current = useCurrent(box, rows, height, (index) => chosen && rows[index] && flip(chosen, keyOf(rows[index])));
  return (
    <table ref={box} class={isStale ? "table is-stale" : "table"} aria-label={label} aria-rowcount={rows.length + 1} aria-busy={isStale}>
      <thead>
        <tr>
          {chosen && <th scope="col" class="choice"><Everything rows={rows} keyOf={keyOf} chosen={chosen} /></th>}
          {columns.map((column, index) => <th key={index} scope="col" class={look(column)} style={{ "--width": column.width, "--phone-width": column.phoneWidth }}>{column.head}</th>)}
        </tr>
      </thead>
      <tbody>
        {first > 0 && <tr class="spacer" aria-hidden="true"><td style={{ height: `${first * height}px` }} /></tr>}
        {rows.slice(first, last).map((row, offset) => (
          <tr key={keyOf(row)} data-row={first + offset} aria-rowindex={first + offset + 2} class={current === first + offset ? "is-current" : undefined}>
            {chosen && <td class="choice"><Choice row={row} {...props} chosen={chosen} /></td>}
            {columns.map((column, index) => <td key={index} class={look(column)}>{column.cell(row)}</td>)}
          </tr>
        ))}
        {last < rows.length && <tr class="spacer" aria-hidden="true"><td style={{ height: `${(rows.length - last) * height}px` }} /></tr>}
      </tbody>
    </table>
  );
}

function look<T>(column: Column<T>): string | undefined {
  return [column.align === "end" && "end", column.wide && "wide", column.wide === "very" && "very-wide"].filter(Boolean).join(" ") || undefined;
}

function flip(chosen: Signal<ReadonlySet<string>>, key: string): void {
  const all = new Set(chosen.value);
  if (!all.delete(key)) all.add(key);
  chosen.value = all;
}

function Choice<T>({ row, keyOf, nameOf, chosen }: Pick<Props<T>, "keyOf" | "nameOf"> & { row: T; chosen: Signal<ReadonlySet<string>> }) {
  const key = keyOf(row);
  return <input type="checkbox" aria-label={`Choose ${nameOf?.(row) ?? key}`} checked={chosen.value.has(key)} onChange={() => flip(chosen, key)} />;
}

function Everything<T>({ rows, keyOf, chosen }: Pick<Props<T>, "rows" | "keyOf"> & { chosen: Signal<ReadonlySet<string>> }) {
  const isAll = rows.length > 0 && rows.every((row) => chosen.value.has(keyOf(row)));
  const change = (): void => void (chosen.value = new Set(isAll ? [] : rows.map(keyOf)));
  return <input type="checkbox" aria-label="Choose all that are shown" checked={isAll} onChange={change} />;
}

/** Which rows are near the screen. The page scrolls, not the table. */
function useVisible(box: { current: HTMLTableElement | null }, count: number, onEnd?: () => void) {
  const [range, setRange] = useState({ first: 0, last: 60, height: 32 });
  const look = useRef(() => {});
  look.current = () => {
    const table = box.current;
    if (!table) return;
    const height = parseFloat(getComputedStyle(table).getPropertyValue("--row")) || 32;
    const top = -table.getBoundingClientRect().top;
    const first = Math.max(0, Math.min(count, Math.floor(top / height) - SPARE));
    const last = Math.max(first, Math.ceil((top + innerHeight) / height) + SPARE);
    setRange((old) => (old.first === first && old.last === last && old.height === height ? old : { first, last, height }));
    if (count > 0 && last > count) onEnd?.();
  };
  useEffect(() => {
    let frame = 0;
    const soon = (): void => void (frame ||= requestAnimationFrame(() => { frame = 0; look.current(); }));
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }, []);
  useLayoutEffect(() => look.current(), [count]);
  return { ...range, last: Math.min(range.last, count) };
}

/** The row that j and k are at; its link has the focus, so that Enter opens it. */
function useCurrent<T>(box: { current: HTMLTableElement | null }, rows: T[], height: number, choose: (index: number) => void): number {
  const [current, setCurrent] = useState(-1);
  const move = (step: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, current + step));
    setCurrent(next);
    const table = box.current;
    if (!table || !rows.length) return;
    const top = table.getBoundingClientRect().top + (next + 1) * height;
    if (top < 3 * height || top > innerHeight - 3 * height) scrollBy({ top: top - innerHeight / 2 });
    requestAnimationFrame(() => requestAnimationFrame(() => table.querySelector<HTMLElement>(`[data-row="${next}"] a`)?.focus({ preventScroll: true })));
  };
  useKeys({ j: () => move(1), k: () => move(-1), x: () => current >= 0 && choose(current) });
  return current;
}
