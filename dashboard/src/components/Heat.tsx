import { effect } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { dark, token } from "../theme";
import { clock, exact, now, zoneName } from "../time";
import { ticksOf } from "./ticks";
import type { Mark } from "./Chart";

export type Box = { from: number; to: number; low: number; high: number };
type Props = {
  label: string;
  /** The beginning of each column, ms since 1970, and how long one lasts. */
  times: number[];
  step: number;
  /** What each row is called, the lowest first. */
  rows: string[];
  /** `counts[column][row]` */
  counts: number[][];
  height?: number;
  marks?: Mark[];
  /** Called with the box that was dragged: times, and indexes of rows, both ends included. */
  onBrush?: (box: Box) => void;
  /** Buttons beside the title. */
  actions?: ComponentChildren;
};

const LEFT = 56; // px, for the names of rows
const BOTTOM = 18;

/** Counts by time and size, darker for more, on a logarithmic scale. Drag a box to ask what is in it. */
export function Heat(props: Props) {
  const { label, times, rows, counts, height = 160, onBrush } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [drag, setDrag] = useState<{ x: number; y: number; toX: number; toY: number } | null>(null);
  const [isTable, setTable] = useState(false);
  useEffect(() => {
    if (isTable || !canvas.current) return;
    const draw = (): void => void (canvas.current && paint(canvas.current, props)); // it may be gone when this is called
    const watch = new ResizeObserver(draw);
    watch.observe(canvas.current);
    const stop = effect(() => {
      void dark.value;
      draw();
    });
    return () => (watch.disconnect(), stop());
  }, [isTable, times, counts, props.marks]);

  const point = (event: PointerEvent) => ({ x: event.offsetX, y: event.offsetY });
  const down = (event: PointerEvent): void => {
    if (!onBrush) return;
    canvas.current!.setPointerCapture(event.pointerId);
    setDrag({ ...point(event), toX: event.offsetX, toY: event.offsetY });
  };
  const move = (event: PointerEvent): void => {
    if (drag) setDrag({ ...drag, toX: event.offsetX, toY: event.offsetY });
    canvas.current!.title = textAt(canvas.current!, props, point(event));
  };
  const up = (): void => {
    if (drag) onBrush?.(boxOf(canvas.current!, props, drag));
    setDrag(null);
  };
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{label}</span>
        {props.actions}
        <span class="legend wide">{total(counts) > 0 && `darker: more runs, up to ${most(counts).toLocaleString("en")} a cell`}</span>
        <button type="button" class="button quiet" aria-pressed={isTable} onClick={() => setTable(!isTable)}>Table</button>
      </figcaption>
      {isTable ? <Counts {...props} /> : (
        <div class="heat">
          <canvas ref={canvas} style={{ height: `${height}px` }} role="img" aria-label={`${label}. ${rows.length} sizes by ${times.length} times, ${total(counts)} in all. The button Table shows all.`}
            onPointerDown={down} onPointerMove={move} onPointerUp={up} />
          {drag && <span class="brush" style={frameOf(drag)} />}
        </div>
      )}
    </figure>
  );
}

function total(counts: number[][]): number {
  return counts.flat().reduce((sum, n) => sum + n, 0);
}

function most(counts: number[][]): number {
  return Math.max(1, ...counts.flat());
}

function cellAt(canvas: HTMLCanvasElement, { times, rows }: Props, { x, y }: { x: number; y: number }): { column: number; row: number } {
  const width = (canvas.clientWidth - LEFT) / Math.max(times.length, 1);
  const height = (canvas.clientHeight - BOTTOM) / Math.max(rows.length, 1);
  const column = Math.max(0, Math.min(times.length - 1, Math.floor((x - LEFT) / width)));
  const row = rows.length - 1 - Math.max(0, Math.min(rows.length - 1, Math.floor(y / height)));
  return { column, row };
}

function textAt(canvas: HTMLCanvasElement, props: Props, point: { x: number; y: number }): string {
  if (point.x < LEFT || !props.times.length) return "";
  const { column, row } = cellAt(canvas, props, point);
  const from = props.times[column]!;
  const marks = (props.marks ?? []).filter((mark) => mark.at >= from && mark.at < from + props.step).map((mark) => mark.text);
  return [exact(from, zoneName()), `${props.rows[row]}: ${props.counts[column]?.[row] ?? 0}`, ...marks].join("\n");
}

function boxOf(canvas: HTMLCanvasElement, props: Props, drag: { x: number; y: number; toX: number; toY: number }): Box {
  const a = cellAt(canvas, props, drag);
  const b = cellAt(canvas, props, { x: drag.toX, y: drag.toY });
  return {
    from: props.times[Math.min(a.column, b.column)]!,
    to: props.times[Math.max(a.column, b.column)]! + props.step,
    low: Math.min(a.row, b.row),
    high: Math.max(a.row, b.row),
  };
}

function frameOf({ x, y, toX, toY }: { x: number; y: number; toX: number; toY: number }) {
  return { left: `${Math.min(x, toX)}px`, top: `${Math.min(y, toY)}px`, width: `${Math.abs(toX - x)}px`, height: `${Math.abs(toY - y)}px` };
}

function paint(canvas: HTMLCanvasElement, { times, step, rows, counts, marks = [] }: Props): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  const ctx = canvas.getContext("2d")!;
  ctx.scale(ratio, ratio);
  const width = (canvas.clientWidth - LEFT) / Math.max(times.length, 1);
  const height = (canvas.clientHeight - BOTTOM) / Math.max(rows.length, 1);
  const darkest = Math.log1p(most(counts));
  ctx.fillStyle = token("--running");
  counts.forEach((column, x) => column.forEach((n, y) => {
    if (!n) return;
    ctx.globalAlpha = 0.15 + (0.85 * Math.log1p(n)) / darkest;
    ctx.fillRect(LEFT + x * width, (rows.length - 1 - y) * height, Math.max(width - 0.5, 0.5), height - 0.5);
  }));
  ctx.globalAlpha = 0.6;
  ctx.fillStyle = token("--text");
  for (const mark of marks) {
    const x = LEFT + ((mark.at - times[0]!) / step) * width;
    if (x < LEFT || x > canvas.clientWidth) continue;
    for (let y = 0; y < canvas.clientHeight - BOTTOM; y += 5) ctx.fillRect(x, y, 1, 2);
    ctx.fillRect(x - 3, 0, 6, 6);
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = token("--faint-text");
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  const every = Math.ceil(14 / height);
  rows.forEach((name, y) => y % every === 0 && ctx.fillText(name, 0, (rows.length - 1 - y + 0.5) * height, LEFT - 6));
  if (times.length) paintTimes(ctx, canvas, times[0]!, times.length * step);
}

/** Whole hours or minutes, as on the axes of the other charts; a text that would be cut off is left out. */
function paintTimes(ctx: CanvasRenderingContext2D, canvas: HTMLCanvasElement, from: number, length: number): void {
  const width = canvas.clientWidth - LEFT;
  ctx.textAlign = "center";
  for (const tick of ticksOf(from, from + length, zoneName(), Math.max(2, width / 70))) {
    const x = LEFT + ((tick.at - from) / length) * width;
    if (x - LEFT > 16 && canvas.clientWidth - x > 16) ctx.fillText(tick.text, x, canvas.clientHeight - BOTTOM / 2);
  }
  ctx.textAlign = "start";
}

/** Counts as numbers; with `onBrush` each is a button for its cell, so that no pointer is needed. */
function Counts({ label, times, step, rows, counts, onBrush }: Props) {
  const cell = (x: number, y: number): ComponentChildren => {
    const n = counts[x]?.[y];
    if (!n || !onBrush) return n || "";
    const at = times[x]!;
    return <button type="button" class="button quiet" aria-label={`${n} at ${clock(at, zoneName(), now())}, ${rows[y]}: show them`} onClick={() => onBrush({ from: at, to: at + step, low: y, high: y })}>{n}</button>;
  };
  return (
    <div class="chart-table" tabIndex={0} role="region" aria-label={`${label}, as a table`}>
      <table>
        <thead><tr><th scope="col">time</th>{rows.map((name) => <th scope="col" class="end">{name}</th>)}</tr></thead>
        <tbody>{times.map((at, x) => <tr><td>{clock(at, zoneName(), now())}</td>{rows.map((_, y) => <td class="end">{cell(x, y)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}
