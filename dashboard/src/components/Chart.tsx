import { effect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { dark, token } from "../theme";
import { clock, exact, now, zone, zoneName } from "../time";
import type { Tone } from "../states";

export type Line = {
  label: string;
  values: (number | null)[];
  tone: Tone;
  fill?: boolean;
  dash?: boolean;
  /** Bars instead of a line, with `dash` hollow; they grow from zero, the first of several lies behind. */
  bars?: boolean;
  /** On an axis of its own, at the right; and how a value is written there. */
  right?: (value: number) => string;
};
/** Something that changed: drawn as a line with its text on hover. */
export type Mark = { at: number; text: string };

type Props = {
  label: string;
  /** ms since 1970, rising. */
  times: number[];
  lines: Line[];
  marks?: Mark[];
  /** How a value is written: `(n) => duration(n)`. */
  show?: (value: number) => string;
  height?: number;
  /** How far the axis of values reaches at least. */
  least?: number;
  /** What the legend says of a line; without it, its last value. */
  last?: (values: (number | null)[]) => number | null;
  /** The ends of the time axis in ms; without it, those of the data. */
  window?: [number, number];
  /** Called with the window that was dragged, in ms. */
  onBrush?: (from: number, to: number) => void;
};

const plain = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 2 });

/** Lines over time, with marks of change; the same numbers are in a table behind a button. */
export function Chart(props: Props) {
  const { label, times, lines, marks = [], show = plain, height = 160, last = lastOf, onBrush } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [isTable, setTable] = useState(false);
  const shape = lines.map((line) => line.label).join("|");
  const live = useRef(props);
  live.current = props;

  useEffect(() => {
    if (isTable) return;
    return effect(() => {
      void dark.value; // colours are those of the theme
      void zone.value;
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(box.current!, height, live, onBrush !== undefined), dataOf(live.current), box.current!);
    });
  }, [isTable, shape, height]);
  useEffect(() => plot.current?.setData(dataOf(props)), [times, lines, marks]);
  useEffect(() => {
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: box.current?.clientWidth ?? 300, height }));
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, [isTable]);
  useEffect(() => () => plot.current?.destroy(), []);

  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{label}</span>
        <Legend lines={lines} show={show} last={last} />
        <button type="button" class="button quiet" aria-pressed={isTable} onClick={() => setTable(!isTable)}>Table</button>
      </figcaption>
      {isTable ? <Numbers {...props} show={show} /> : <div ref={box} class="plot" role="img" aria-label={spoken(label, lines, show, last)} />}
      {marks.length > 0 && !isTable && <ul class="for-readers">{marks.map((mark) => <li>{exact(mark.at, zoneName())}: {mark.text}</li>)}</ul>}
    </figure>
  );
}

type Last = NonNullable<Props["last"]>;

function lastOf(values: (number | null)[]): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

function shown(line: Line, value: number | null | undefined, show: (value: number) => string): string {
  return value == null ? "–" : (line.right ?? show)(value);
}

function spoken(label: string, lines: Line[], show: (value: number) => string, last: Last): string {
  const values = lines.map((line) => `${line.label} ${shown(line, last(line.values), show)}`);
  return `${label}: ${values.join(", ")}. The button Table shows all.`;
}

function Legend({ lines, show, last }: { lines: Line[]; show: (value: number) => string; last: Last }) {
  return (
    <span class="legend">
      {lines.map((line) => (
        <span key={line.label} class={`legend-item ${line.tone}${line.dash ? " is-dashed" : ""}`}>{line.label} <b>{shown(line, last(line.values), show)}</b></span>
      ))}
    </span>
  );
}

function Numbers({ label, times, lines, show = plain }: Props) {
  return (
    <div class="chart-table" tabIndex={0} role="region" aria-label={`${label}, as a table`}>
      <table>
        <thead><tr><th scope="col">time</th>{lines.map((line) => <th scope="col" class="end">{line.label}</th>)}</tr></thead>
        <tbody>
          {times.map((at, index) => (
            <tr><td>{clock(at, zoneName(), now())}</td>{lines.map((line) => <td class="end">{shown(line, line.values[index], show)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function dataOf({ times, lines }: Props): uPlot.AlignedData {
  return [times.map((at) => at / 1_000), ...lines.map((line) => line.values)] as uPlot.AlignedData;
}

function optionsOf(box: HTMLElement, height: number, live: { current: Props }, brushes: boolean): uPlot.Options {
  const { lines, show = plain } = live.current;
  const ink = token("--faint-text");
  const grid = { stroke: token("--line"), width: 1 };
  const font = "11px system-ui, sans-serif";
  const right = lines.find((line) => line.right)?.right;
  return {
    width: box.clientWidth || 300,
    height,
    legend: { show: false },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), zoneName()),
    cursor: { drag: { x: brushes, y: false, setScale: false }, points: { size: 6 } },
    scales: { x: { range: (_, first, last) => xRange(live.current, first, last) }, y: { range: fromZero(live.current.least) }, right: { range: fromZero() } },
    axes: [
      { stroke: ink, grid, ticks: grid, font, size: 30, values: [[3600, "{HH}:{mm}", "\n{MM}-{DD}", null, null, null, null, null, 0], [60, "{HH}:{mm}", null, null, null, null, null, null, 0], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 0]] },
      { stroke: ink, grid, ticks: grid, font, size: 52, values: (_, ticks) => ticks.map((tick) => show(tick)) },
      ...(right ? [{ scale: "right", side: 1 as const, stroke: ink, grid: { show: false }, ticks: grid, font, size: 74, values: (_: uPlot, ticks: number[]) => ticks.map(right) }] : []),
    ],
    series: [{}, ...lines.map((line) => ({
      label: line.label,
      scale: line.right ? "right" : "y",
      paths: line.bars ? uPlot.paths.bars!({ size: [0.8, 40], align: 1 }) : undefined,
      stroke: token(`--${line.tone}`),
      fill: line.bars && !line.dash ? token(`--${line.tone}`) : line.fill || line.bars ? token(`--${line.tone}-wash`) : undefined,
      width: line.bars ? Number(line.dash ?? 0) : 1.5,
      dash: line.dash ? [4, 3] : undefined,
      points: { show: false },
    }))],
    hooks: {
      draw: [(plot) => drawMarks(plot, live.current.marks ?? [])],
      setCursor: [(plot) => sayWhatIsThere(plot, box, live.current)],
      setSelect: [(plot) => brushed(plot, live.current)],
    },
  };
}

function fromZero(least = 1): uPlot.Range.Function {
  return (_, __, most) => [0, Math.max((most ?? 0) * 1.1, least)];
}

function xRange({ window }: Props, first: number, last: number): uPlot.Range.MinMax {
  return window ? [window[0] / 1_000, window[1] / 1_000] : [first, last];
}

function drawMarks(plot: uPlot, marks: Mark[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = token("--text");
  ctx.globalAlpha = 0.6;
  ctx.setLineDash([2, 3]);
  for (const mark of marks) {
    const x = plot.valToPos(mark.at / 1_000, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillRect(x - 3, bbox.top, 6, 6);
  }
  ctx.restore();
}

const NEAR = 6; // px

function sayWhatIsThere(plot: uPlot, box: HTMLElement, { times, lines, marks = [], show = plain }: Props): void {
  const { idx, left = -1 } = plot.cursor;
  const near = marks.filter((one) => Math.abs(plot.valToPos(one.at / 1_000, "x") - left) < NEAR).slice(-5);
  if (idx == null || left < 0 || times[idx] === undefined) return void (box.title = "");
  const values = lines.map((line) => `${line.label} ${shown(line, line.values[idx], show)}`);
  box.title = [exact(times[idx], zoneName()), ...values, ...near.map((one) => one.text)].join("\n");
}

function brushed(plot: uPlot, { onBrush }: Props): void {
  const { left, width } = plot.select;
  if (!onBrush || width < NEAR) return;
  onBrush(plot.posToVal(left, "x") * 1_000, plot.posToVal(left + width, "x") * 1_000);
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
}
