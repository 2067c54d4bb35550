import { Empty } from "../../components/Empty";
import { Copy } from "../../components/Copy";
import { href, query, setQuery } from "../../router";
import { quoted } from "../../commands";
import { kindsOf, matrix, sizeWords, teamsOf, type Fit, type Kind, type Row, type Team, type Verdict } from "./fit";
import type { Fleet } from "./fleet";

const LOOKS: Record<Verdict, { glyph: string; tone: string }> = {
  can: { glyph: "✓", tone: "good" },
  full: { glyph: "●", tone: "warn" },
  draining: { glyph: "◌", tone: "quiet" },
  no_heartbeat: { glyph: "!", tone: "warn" },
  no_task: { glyph: "", tone: "quiet" },
  no_queue: { glyph: "", tone: "quiet" },
  no_label: { glyph: "", tone: "quiet" },
  too_big: { glyph: "", tone: "quiet" },
  unknown: { glyph: "?", tone: "quiet" },
};
const MOST_TEAMS = 24;

/** Kinds of work × workers: who can run what, and if not, why not. The row without a mark is the incident. */
export function FitMatrix({ fleet, queue }: { fleet: Fleet; queue?: string }) {
  const isAll = query.value.get("kinds") === "all";
  const kinds = kindsOf(fleet.queues).filter((kind) => (!queue || kind.queue === queue) && (isAll || kind.depth > 0));
  const teams = teamsOf(fleet.workers);
  const rows = matrix(kinds, teams);
  const { order, apart } = columnsFirst(rows, teams);
  const lonely = rows.filter((row) => row.verdict === "nobody" && row.kind.depth > 0).length;
  return (
    <section class="fit-section" aria-labelledby="fit">
      <header class="section-head">
        <h2 id="fit">Who can run what</h2>
        {lonely > 0 && <span class="state bad"><span class="glyph" aria-hidden="true">⊗</span><span class="word">{lonely === 1 ? "one kind of work" : `${lonely} kinds of work`} that nobody can run</span></span>}
        <button type="button" class="chip" aria-pressed={isAll} onClick={() => setQuery({ kinds: isAll ? undefined : "all" })}>also without work</button>
      </header>
      {rows.length > 0 ? <Grid rows={rows} teams={teams} order={order.slice(0, MOST_TEAMS)} withQueue={!queue} /> : <Empty title="No work is open." command="oncue queues list">Each kind of work that has runs gets a row here, each kind of worker a column.</Empty>}
      {apart.length > 0 && <p class="footnote">Without a column, because they have none of these tasks: {apart.slice(0, MOST_TEAMS).map((at, index) => <>{index > 0 && ", "}<TeamHead team={teams[at]!} /></>)}{apart.length > MOST_TEAMS && ` and ${apart.length - MOST_TEAMS} more kinds`}.</p>}
      {order.length > MOST_TEAMS && <p class="footnote">{order.length - MOST_TEAMS} more kinds of workers are not shown: they run less of this work.</p>}
    </section>
  );
}

/** The workers that can do most come first. Those that have nothing to do with any of this work stay `apart`, unless all are. */
function columnsFirst(rows: Row[], teams: Team[]): { order: number[]; apart: number[] } {
  const marks = teams.map((_, at) => rows.filter((row) => ["can", "full"].includes(row.fits[at]!.verdict)).length);
  const all = teams.map((_, at) => at).sort((a, b) => marks[b]! - marks[a]! || nameOf(teams[a]!).localeCompare(nameOf(teams[b]!)));
  const isNear = (at: number): boolean => rows.some((row) => row.fits[at]!.verdict !== "no_task");
  return all.some(isNear) ? { order: all.filter(isNear), apart: all.filter((at) => !isNear(at)) } : { order: all, apart: [] };
}

function nameOf(team: Team): string {
  return team.workers[0]!.name ?? team.workers[0]!.worker_id.slice(-8);
}

function Grid({ rows, teams, order, withQueue }: { rows: Row[]; teams: Team[]; order: number[]; withQueue: boolean }) {
  return (
    <div class="fit-scroll" tabIndex={0} role="region" aria-label="Kinds of work and workers">
      <table class="fit">
        <thead>
          <tr>
            <th scope="col">Work</th>
            <th scope="col" class="end">Due</th>
            <th scope="col" class="end">Open</th>
            {order.map((at) => <th key={teams[at]!.key} scope="col"><TeamHead team={teams[at]!} /></th>)}
            {!order.length && <th scope="col">No workers</th>}
          </tr>
        </thead>
        <tbody>{rows.map((row) => <Line key={row.kind.key} row={row} teams={teams} order={order} withQueue={withQueue} />)}</tbody>
      </table>
    </div>
  );
}

function TeamHead({ team }: { team: Team }) {
  const more = team.workers.length - 1;
  return (
    <span title={team.workers.map((worker) => worker.name).join(", ")}>
      <a href={href(`/workers/${team.workers[0]!.worker_id}`)}>{nameOf(team)}</a>{more > 0 && <span class="faint"> +{more} alike</span>}
    </span>
  );
}

function Line({ row, teams, order, withQueue }: { row: Row; teams: Team[]; order: number[]; withQueue: boolean }) {
  const { kind } = row;
  const isLoud = row.verdict === "nobody" && kind.depth > 0;
  return (
    <>
      <tr class={isLoud ? "is-loud bad" : undefined}>
        <th scope="row"><KindName kind={kind} withQueue={withQueue} />{kind.isPaused && <span class="faint"> · queue paused</span>}</th>
        <td class="end number">{kind.due ? <b>{kind.due.toLocaleString("en")}</b> : <span class="faint">–</span>}</td>
        <td class="end number">{kind.depth ? kind.depth.toLocaleString("en") : <span class="faint">–</span>}</td>
        {order.map((at) => <td key={teams[at]!.key}><Mark fit={row.fits[at]!} /></td>)}
        {!order.length && <td />}
      </tr>
      {isLoud && <tr class="is-loud bad fit-remedy"><td colSpan={3 + Math.max(1, order.length)}><Remedy row={row} teams={teams} /></td></tr>}
    </>
  );
}

function KindName({ kind, withQueue }: { kind: Kind; withQueue: boolean }) {
  const size = sizeWords(kind.size);
  return (
    <>
      <b>{kind.task}</b>
      {withQueue && <span class="faint"> in <a href={href(`/queues/${encodeURIComponent(kind.queue)}`)}>{kind.queue}</a></span>}
      {kind.labels.map((label) => <code key={label} class="needs">{label}</code>)}
      {size && <span class="faint"> {size}</span>}
    </>
  );
}

function Mark({ fit }: { fit: Fit }) {
  const { glyph, tone } = LOOKS[fit.verdict];
  return (
    <span class={`state ${tone} fit-${fit.verdict}`} title={fit.detail}>
      {glyph && <span class="glyph" aria-hidden="true">{glyph}</span>}<span class="word">{fit.word}</span>
    </span>
  );
}

const CLOSENESS: Verdict[] = ["unknown", "no_task", "no_queue", "no_label", "too_big", "no_heartbeat", "draining"];

/** What the closest worker lacks, and the command that helps. */
function Remedy({ row, teams }: { row: Row; teams: Team[] }) {
  const at = row.fits.reduce((best, fit, index) => (CLOSENESS.indexOf(fit.verdict) > CLOSENESS.indexOf(row.fits[best]?.verdict ?? "unknown") ? index : best), 0);
  const closest = row.fits[at];
  const helps = remedyOf(row.kind, closest?.verdict, teams[at]);
  return (
    <span class="fit-remedy-line">
      <span><b>Nobody can run this.</b> {closest ? <>{nameOf(teams[at]!)}: {closest.detail}</> : "There is no worker."}</span>
      {helps && <span class="command"><code>{helps}</code><Copy text={helps} what="the command" /></span>}
    </span>
  );
}

function remedyOf(kind: Kind, verdict: Verdict | undefined, team: Team | undefined): string | null {
  if (verdict === "draining" && team) return `oncue workers resume ${quoted(nameOf(team))}`;
  if (verdict === "too_big") return null; // a larger machine, or a smaller request
  const labels = kind.labels.length ? ` --labels ${quoted(kind.labels.join(","))}` : "";
  return `oncue worker --tasks FILE.py --queues ${quoted(kind.queue)}${labels}`;
}
