import { useGet } from "../../api/use";
import { Choice } from "../../components/Choice";
import { Copy } from "../../components/Copy";
import { Empty } from "../../components/Empty";
import { StateMark } from "../../components/StateMark";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { command } from "../../commands";
import { href, query, setQuery } from "../../router";
import { stateOf } from "../../states";
import { clock, duration, exact, now, zoneName } from "../../time";
import { known, lengthOf } from "../../windows";
import { bucketCells, cellsOf, countOf, countsText, MOST_CELLS, rowsOf, totals, type LedgerCell, type Occurrence } from "./ledger";
import { useJobRuns, useMinute } from "./useJobRuns";

const WINDOWS = ["24h", "7d", "30d", "1y"];
const MOST_TOLD = 50; // of what did not start on time
const WORDS = { "24h": "24 hours", "7d": "7 days", "30d": "30 days", "1y": "a year" };
const STEPS: Record<string, [string, number]> = { "24h": ["1m", 60_000], "7d": ["30m", 1_800_000], "30d": ["1h", 3_600_000], "1y": ["1d", 86_400_000] };

/** Every nominal instant of the schedule: it has a run, or a reason why it has none. */
export function LedgerTab({ jobId, zone }: { jobId: string; zone?: string }) {
  const window = query.value.get("window") ?? "24h";
  const to = useMinute();
  const from = to - lengthOf(window);
  const [step, stepMs] = known(STEPS, window) ?? STEPS["24h"]!;
  const times = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  const heat = useGet("/v1/jobs/{id}/occurrences/heat", { path: { id: jobId }, query: { ...times, step } });
  const isCounted = heat.data !== undefined;
  const isMany = isCounted && countOf(heat.data!.buckets) > MOST_CELLS;
  const single = useGet(isCounted && !isMany ? "/v1/jobs/{id}/occurrences" : null, { path: { id: jobId }, query: { start_time: times.from, end_time: times.to, limit: 1_000 } });
  useJobRuns(jobId, () => (heat.reload(), single.reload()));
  const error = heat.error ?? single.error;
  const cells = isMany ? bucketCells(heat.data!.buckets, stepMs) : cellsOf(single.data?.occurrences ?? []);
  const isLoaded = isMany || single.data !== undefined;
  return (
    <section aria-label="Ledger">
      <div class="ledger-head">
        <Choice label="Window" param="window" choices={WINDOWS} fallback="24h" words={WORDS} />
        <Totals cells={cells} />
      </div>
      {error && <Trouble error={error} onAgain={heat.reload} />}
      {isLoaded && !cells.length && <Empty title="No occurrence of this schedule lies in this window." command={command("jobs occurrences", [jobId])} />}
      {cells.length > 0 && <LedgerStrip cells={cells} zone={zoneName(zone)} isBuckets={isMany} />}
      <Honesty isMany={isMany} step={step} lookedBackTo={isMany ? heat.data!.looked_back_to : single.data?.looked_back_to ?? null} hasMore={!isMany && !!single.data?.next_page_token} />
      <Chosen jobId={jobId} cells={cells} zone={zone} />
    </section>
  );
}

function Totals({ cells }: { cells: LedgerCell[] }) {
  return <p class="totals">{totals(cells).map(([outcome, n]) => <span key={outcome}><b class="number">{n.toLocaleString("en")}</b> <StateMark state={outcome} /></span>)}</p>;
}

function Honesty({ isMany, step, lookedBackTo, hasMore }: { isMany: boolean; step: string; lookedBackTo: string | null; hasMore: boolean }) {
  if (!isMany && !lookedBackTo && !hasMore) return null;
  return (
    <p class="hint">
      {isMany && <>Each cell stands for {step} and shows the worst in it: there are more than {MOST_CELLS} occurrences. </>}
      {lookedBackTo && <>Looked back to <When at={lookedBackTo} as="clock" focusable />; what is older is not counted. </>}
      {!lookedBackTo && hasMore && <>Only the newest 1,000 are shown. </>}
    </p>
  );
}

/** Arrows move between cells; the chosen one is in the URL, and told below. */
function LedgerStrip({ cells, zone, isBuckets }: { cells: LedgerCell[]; zone: string; isBuckets: boolean }) {
  const chosen = Number(query.value.get("cell")) || null;
  const current = cells.find((cell) => cell.at === chosen) ?? cells[cells.length - 1]!;
  const choose = (cell: LedgerCell | undefined): void => {
    if (!cell) return;
    setQuery({ cell: String(cell.at) });
    requestAnimationFrame(() => document.querySelector<HTMLElement>(`.ledger [data-at="${cell.at}"]`)?.focus());
  };
  const pressed = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = Number((event.target as HTMLElement).dataset.at); // what has the focus: what is shown may be a frame old
    choose(cells[cells.findIndex((cell) => cell.at === at) + step]);
  };
  return (
    <div class={isBuckets ? "ledger is-buckets" : "ledger"} role="group" aria-label="Occurrences, the newest last. Arrow keys move." onKeyDown={pressed}>
      {rowsOf(cells, zone).map((row) => (
        <div class="ledger-row" key={`${row.label} ${row.cells[0]!.at}`}>
          {row.label && <span class="ledger-label">{row.label}</span>}
          <span class="ledger-cells">{row.cells.map((cell) => <CellButton key={cell.at} cell={cell} zone={zone} isChosen={cell.at === chosen} isReachable={cell === current} onChoose={choose} />)}</span>
        </div>
      ))}
    </div>
  );
}

type CellProps = { cell: LedgerCell; zone: string; isChosen: boolean; isReachable: boolean; onChoose: (cell: LedgerCell) => void };

function CellButton({ cell, zone, isChosen, isReachable, onChoose }: CellProps) {
  const { tone } = stateOf(cell.outcome);
  const text = `${countsText(cell.counts)}: ${clock(cell.at, zone, now())}${cell.until > cell.at ? ` to ${clock(cell.until, zone, now())}` : ""}`;
  return (
    <button type="button" class={`ledger-cell ${cell.occurrence && cell.occurrence.count > 1 ? "is-range" : ""}`} data-at={cell.at} aria-label={text} title={text} aria-pressed={isChosen} tabIndex={isReachable ? 0 : -1} onClick={() => onChoose(cell)}>
      <i class={`cell ${tone} is-${cell.outcome}`} />
    </button>
  );
}

/** What the chosen cell stands for, with reasons and runs; without one, all that did not start on time. */
function Chosen({ jobId, cells, zone }: { jobId: string; cells: LedgerCell[]; zone?: string }) {
  const at = Number(query.value.get("cell")) || null;
  const cell = cells.find((one) => one.at === at);
  const isBucket = cell && !cell.occurrence;
  const inside = useGet(isBucket ? "/v1/jobs/{id}/occurrences" : null, { path: { id: jobId }, query: { start_time: new Date(cell?.at ?? 0).toISOString(), end_time: new Date(cell?.until ?? 0).toISOString(), limit: 100 } });
  const untoward = cells.filter((one) => one.occurrence && !["started", "waiting"].includes(one.outcome)).slice(-MOST_TOLD).reverse();
  const shown = isBucket ? inside.data?.occurrences ?? [] : cell ? [cell.occurrence!] : untoward.map((one) => one.occurrence!);
  if (!shown.length) return null;
  const title = isBucket ? `From ${clock(cell.at, zoneName(zone), now())} to ${clock(cell.until, zoneName(zone), now())}` : cell ? "The chosen occurrence" : `What did not start on time${untoward.length === MOST_TOLD ? `, the newest ${MOST_TOLD}` : ""}`;
  return (
    <section class="ledger-told" aria-live="polite">
      <header><h2>{title}</h2>{cell && <button type="button" class="button quiet" onClick={() => setQuery({ cell: undefined })}>Show all exceptions</button>}</header>
      <ul>{shown.map((one) => <Told key={one.scheduled_for + one.outcome} jobId={jobId} one={one} zone={zone} />)}</ul>
    </section>
  );
}

const REASONS: Record<string, string> = {
  overlap: "the run before was still active", catch_up: "it was late, and created by catch-up", backfill: "created by a backfill",
  late: "nothing planned it in time", paused: "the job was paused", dst_gap: "daylight saving leaves this time out", gap: "daylight saving leaves this time out",
};

function Told({ jobId, one, zone }: { jobId: string; one: Occurrence; zone?: string }) {
  const at = Date.parse(one.scheduled_for);
  const rerun = !one.run_id && command("jobs backfill", [jobId]) + ` --from ${one.scheduled_for} --to ${new Date(Date.parse(one.until ?? one.scheduled_for) + 1).toISOString()}`;
  return (
    <li>
      <StateMark state={one.outcome} />
      <span class="number">{exact(at, zoneName(zone))}{one.until && <> to {clock(Date.parse(one.until), zoneName(zone), at)}</>}</span>
      {one.count > 1 && <span>{one.count} occurrences</span>}
      {one.lag_ms !== null && <span>started {duration(one.lag_ms)} after its time</span>}
      {one.reason && <span>{REASONS[one.reason] ?? one.reason.replaceAll("_", " ")}</span>}
      {one.run_id && <a href={href(`/runs/${one.run_id}`)}>{linkWords(one.outcome)} …{one.run_id.slice(-8)}</a>}
      {rerun && <span class="remedy"><code>{rerun}</code><Copy text={rerun} what="the command that runs it" /></span>}
    </li>
  );
}

function linkWords(outcome: string): string {
  return outcome === "coalesced" ? "runs in" : outcome === "skipped" ? "blocked by run" : "run";
}
