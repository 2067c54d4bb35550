import { signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { usePaged } from "../../api/use";
import type { DeadLetter } from "../../api/types";
import { Button } from "../../components/Button";
import { Empty } from "../../components/Empty";
import { Filters } from "../../components/Filters";
import { LookedBack } from "../../components/LookedBack";
import { Name } from "../../components/Name";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { callRun, runName, shortId } from "../../names";
import { usePulse } from "../../refresh";
import { href, query, setQuery } from "../../router";
import { can, ownOnly } from "../../session";
import { now } from "../../time";
import { known } from "../../windows";
import { Letter } from "./Letter";
import { LettersBar } from "./LettersBar";
import { RecentBulks } from "./RecentBulks";

export type LetterFilter = { fingerprint?: string; task?: string; queue?: string; job_id?: string; start_time?: string; user_id?: string };
const chosen = signal<ReadonlySet<string>>(new Set());
const EVERY = 2_000; // ms
const PAGE = 100;
const HOURS: Record<string, number> = { "1h": 1, "24h": 24, "7d": 168 };

/** Dead letters: look at one, or act on many. */
export function Letters({ filter: fixed }: { filter: LetterFilter }) {
  const filter = { ...fixed, ...useWanted() };
  const letters = usePaged("/v1/dead-letters", { query: filter }, (page) => page.dead_letters);
  const [hasNews, setNews] = useState(false);
  const reload = (): void => (setNews(false), letters.reload());
  usePulse((pulse) => pulse.dead_letters, () => (letters.items.length > PAGE ? setNews(true) : reload()), EVERY);
  useEffect(() => () => void (chosen.value = new Set()), [JSON.stringify(filter)]);
  const columns = useMemo(() => columnsOf(!fixed.fingerprint), [fixed.fingerprint, query.value]);
  return (
    <>
      <RecentBulks />
      <Filters filters={filtersOf(!fixed.fingerprint)} />
      {hasNews && <p class="looked-back">There are changes. <Button onClick={reload}>Show them</Button></p>}
      {letters.error && <Trouble error={letters.error} onAgain={reload} />}
      {letters.items.length > 0 && <Table label="Dead letters" columns={columns} rows={letters.items} keyOf={idOf} nameOf={(letter) => `${runName(letter)} ${shortId(letter.run_id)}`} chosen={can("letters") ? chosen : undefined} isStale={letters.loading} onEnd={() => letters.lookedBackTo || letters.more()} />}
      {!letters.loading && !letters.error && !letters.items.length && !letters.hasMore && <Nothing filter={filter} />}
      <Window filter={filter} count={letters.items.length} hasMore={letters.hasMore} />
      <LookedBack to={letters.lookedBackTo} hasMore={letters.hasMore} onMore={letters.more} />
      <LettersBar letters={letters.items} chosen={chosen} filter={filter} onDone={reload} />
      <Opened onDone={reload} />
    </>
  );
}

/** What the URL asks for. A window stays where it was when it was chosen. */
function useWanted(): LetterFilter {
  const at = query.value;
  const hours = known(HOURS, at.get("since"));
  const start_time = useMemo(() => (hours ? new Date(now() - hours * 3_600_000).toISOString() : undefined), [hours]);
  const wanted = { task: at.get("task"), queue: at.get("queue"), job_id: at.get("job_id"), start_time, user_id: ownOnly.value };
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value));
}

function filtersOf(withTask: boolean) {
  return [
    { param: "since", label: "Scheduled in the last", choices: Object.keys(HOURS), one: true },
    ...(withTask ? [{ param: "task", label: "Task" }] : []),
    { param: "queue", label: "Queue" },
    { param: "job_id", label: "Id of a job" },
  ];
}

function idOf(letter: DeadLetter): string {
  return letter.run_id;
}

function columnsOf(withError: boolean): Column<DeadLetter>[] {
  return [
    { head: "Job", width: "18%", phoneWidth: "auto", cell: (letter) => <a class="main-link" href={addressOf(letter)}><Name of={callRun(letter)} /></a> },
    { head: "Died", width: "6rem", phoneWidth: "5.2rem", cell: (letter) => <When at={letter.end_time} /> },
    { head: "Attempts", width: "5.5rem", align: "end", wide: true, cell: (letter) => <span class="number">{letter.attempt_number}</span> },
    { head: "Queue", width: "7rem", wide: true, cell: (letter) => <span class="cut">{letter.queue}</span> },
    { head: withError ? "Error" : "Message", wide: true, cell: (letter) => <span class="cut" title={letter.error_message ?? ""}>{withError && <b>{letter.error_type} </b>}{letter.error_message}</span> },
    { head: "Payload", width: "22%", wide: true, cell: (letter) => <code class="cut">{letter.payload === null && letter.large.payload ? `${letter.large.payload} bytes` : JSON.stringify(letter.payload)}</code> },
  ];
}

/** The same view with this letter opened. */
function addressOf(letter: DeadLetter): string {
  const all = new URLSearchParams(location.search);
  all.set("letter", letter.run_id);
  return `${location.pathname}?${all.toString()}`;
}

function Opened({ onDone }: { onDone: () => void }) {
  const id = query.value.get("letter");
  const close = (): void => setQuery({ letter: undefined });
  return id ? <Letter key={id} id={id} onClose={close} onDone={() => (close(), onDone())} /> : null;
}

function Window({ filter, count, hasMore }: { filter: LetterFilter; count: number; hasMore: boolean }) {
  if (!count) return null;
  return (
    <p class="footnote">
      {count.toLocaleString("en")}{hasMore ? " or more" : ""} open {count === 1 ? "dead letter" : "dead letters"}, newest first
      {filter.start_time ? <>, scheduled since <When at={filter.start_time} as="clock" focusable /></> : <>, of all time</>}.
    </p>
  );
}

function Nothing({ filter }: { filter: LetterFilter }) {
  const isFiltered = filter.task || filter.queue || filter.job_id || filter.start_time;
  if (isFiltered) return <Empty title="No open dead letter matches these filters." command="oncue dead list" />;
  if (filter.fingerprint) return <Empty title="No open dead letters: every failure of this group was retried with success, run again or discarded.">See <a href={href("/runs", { status: "dead" })}>dead runs</a> for what it was.</Empty>;
  return <Empty title="There are no open dead letters." command="oncue dead list">A run that fails for good waits here until somebody runs it again or discards it.</Empty>;
}
