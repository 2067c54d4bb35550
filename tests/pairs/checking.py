"""What must be true after two verbs have met, whichever came first. Only stored rows and given answers are believed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
from tests.pairs.situations import FIRST_VERSION
from tests.pairs.state import Image, Row
from tests.pairs.verbs import SECOND_VERSION, Situation

from oncue.domain.instants import Instant
from oncue.domain.job import Spec, decode_spec
from oncue.domain.lane import Held
from oncue.domain.run import Claimed, Settled, State
from oncue.domain.schedule import occurrences
from oncue.engines.port import Cancelled

ACTIVE, PAUSED, FINISHED, CANCELLED = range(4)
ENDS = ("succeeded", "dead", "cancelled", "expired", "withdrawn")


class Met(msgspec.Struct, frozen=True):
    """Two verbs have met: what was there before and is there now, and what each was told."""

    at: Situation
    before: Image
    after: Image
    answers: tuple[tuple[str, Any], ...]

    def told(self, *verbs: str) -> list[Any]:
        return [answer for verb, answer in self.answers if verb in verbs]

    def has(self, verb: str) -> bool:
        return any(name == verb for name, _ in self.answers)

    @property
    def claims(self) -> list[tuple[Any, Claimed]]:
        """Who was given what: its worker before, and those who claimed."""
        held = [(self.at.worker, run) for run in self.at.held]
        for who, (verb, answer) in enumerate(self.answers):
            if verb == "claim":
                held += [(self.at.idle[who], run) for run in answer]
        return held


def violations(met: Met) -> Iterator[str]:
    for rule in RULES:
        for what in rule(met):
            yield f"{rule.__name__.replace('_', ' ')}: {what}"


def one_place_at_a_time(met: Met) -> Iterator[str]:
    places = Counter(row["run_id"] for name in ("waiting", "running", "history") for row in met.after.rows(name))
    yield from (f"{run_id} is in {n} places" for run_id, n in places.items() if n > 1)
    ended = {row["run_id"]: row["state"] for row in met.after.rows("history")}
    for row in met.after.rows("dead"):
        if ended.get(row["run_id"]) != State.DEAD:
            yield f"{row['run_id']} is a dead letter and {ended.get(row['run_id'])} in history"


def every_occurrence_once(met: Met) -> Iterator[str]:
    """Against the schedule itself, as far as it was decided."""
    job = _job(met.before, met.at)
    if job is None or met.has("purge") or met.has("turn"):
        return
    spec = _spec(job)
    runs = [row for row in _runs(met.after, met.at) if row["origin"] is None]
    floors = [row["floor"] for image in (met.before, met.after) for row in image.rows("agenda")]
    floor = max([*floors, *(row["nominal"] for row in runs)])
    fates = Counter(row["nominal"] for row in runs)
    ledger = [(row["first_at"], row["last_at"]) for row in met.after.rows("ledger")]
    owed = islice(occurrences(spec.schedule, Instant(job["created_at"]), Instant(floor)), spec.schedule.max_runs)
    for at in owed:
        n = fates.pop(at, 0) + sum(first <= at <= last for first, last in ledger)
        if n != 1:
            yield f"the occurrence {(at - job['created_at']) // 1_000_000} s after creation has {n} fates"
    yield from (f"a run for {at}, which is no occurrence" for at in fates)


def tokens_only_rise(met: Met) -> Iterator[str]:
    before = {row["run_id"]: row["token"] for row in _runs(met.before, met.at)}
    for row in _runs(met.after, met.at):
        if row["token"] < before.get(row["run_id"], 0):
            yield f"{row['run_id']} had token {before[row['run_id']]} and has {row['token']}"


def one_taker(met: Met) -> Iterator[str]:
    """An attempt is settled or handed back once."""
    for run in met.at.held:
        taken = 0
        for verb, answer in met.answers:
            if verb in ("succeed", "retry") and isinstance(answer, Settled):
                taken += run.run_id not in answer.lost
            if verb == "hand back":
                taken += run.run_id in answer
        if taken > 1:
            yield f"{run.run_id} was settled twice with one token"


def what_was_claimed_is_held(met: Met) -> Iterator[str]:
    running = {row["run_id"]: (row["token"], row["worker_id"]) for row in met.after.rows("running")}
    for worker, run in met.claims[len(met.at.held) :]:
        if running.get(str(run.run_id)) != (run.token, str(worker)):
            yield f"{run.run_id} was claimed and is not held"
        if run.job_id == met.at.job_id and run.payload != payload_of(run.job_version):
            yield f"{run.run_id} of version {run.job_version} was claimed with {run.payload!r}"


def cancelled_is_stopped(met: Met) -> Iterator[str]:
    """Nothing of it waits, what runs was told, and a job does not go on."""
    for answer in met.told("cancel run"):
        if isinstance(answer, Cancelled) and answer.final is None:
            yield from _at_large(met, lambda row: row["run_id"] == str(met.at.target))
    for answer in met.told("cancel job"):
        if isinstance(answer, Cancelled) and answer.final is None:
            if _goes_on(met):
                yield "the job goes on"
            if _is_cancelled(met):
                yield from _at_large(met, lambda row: row["job_id"] == str(met.at.job_id))


def _at_large(met: Met, concerned: Any) -> Iterator[str]:
    for row in filter(concerned, met.after.rows("waiting")):
        yield f"{row['run_id']} waits"
    for row in filter(concerned, met.after.rows("running")):
        if row["cancel_at"] is None:
            yield f"{row['run_id']} runs and was not told"


def _goes_on(met: Met) -> bool:
    job = _job(met.after, met.at)
    if job is not None:
        return bool(job["status"] < FINISHED)
    return any(row["run_id"] == str(met.at.job_id) for row in met.after.rows("waiting"))


def _is_cancelled(met: Met) -> bool:
    """One that has finished stays so, and may be run by hand afterwards."""
    job = _job(met.after, met.at)
    if job is not None:
        return bool(job["status"] == CANCELLED)
    only = [row for row in _runs(met.after, met.at) if row["run_id"] == str(met.at.job_id)]
    return any(row.get("state") == State.CANCELLED or row.get("cancel_at") for row in only)


def final_is_final(met: Met) -> Iterator[str]:
    if met.has("purge"):
        return
    after = set(met.after.tables["history"])
    yield from (f"changed or gone: {row}" for row in met.before.tables["history"] if row not in after)


def lanes_are_kept(met: Met) -> Iterator[str]:
    """No more are let in than there is room for, and nobody stands outside while there is."""
    for lane in met.after.rows("lanes"):
        for column, bit, blocked in (("lane", Held.LANE, Held.PAUSED), ("gate", Held.GATE, Held.PAUSED | Held.LANE)):
            inside = sum(row[column] == lane["lane"] for row in met.after.rows("running"))
            here = [row["held"] for row in met.after.rows("waiting") if row[column] == lane["lane"]]
            inside += sum(not held & bit for held in here)
            in_line = sum(held & bit and not held & blocked for held in here)
            if inside > lane["width"]:
                yield f"{inside} in a {column} of {lane['width']}"
            if in_line and inside < lane["width"]:
                yield f"{in_line} stand outside a {column} with room for {lane['width'] - inside}"


def meters_look_in_time(met: Met) -> Iterator[str]:
    """Whoever only waits for a start has somebody who will look; what was given is counted."""
    for meter in met.after.rows("meters"):
        grants = [row for row in met.after.rows("grants") if row["meter"] == meter["meter"]]
        if len(grants) != meter["given"]:
            yield f"{len(grants)} starts given, {meter['given']} counted"
        for row in met.after.rows("waiting"):
            waits = row["meter"] == meter["meter"] and row["held"] == Held.RATE
            if waits and meter["next_at"] > max(row["due"], meter["free_at"]):
                yield f"{row['run_id']} waits for a start that nobody will look for"


def definitions_are_there(met: Met) -> Iterator[str]:
    """Of whatever lives: its version, and its job. What nobody has begun is of the newest."""
    job = _job(met.after, met.at)
    known = {(row["job_id"], row["version"]) for name in ("jobs", "job_versions") for row in met.after.rows(name)}
    jobs = {row["job_id"] for row in met.after.rows("jobs")} | {row["run_id"] for row in _all(met.after)}
    for row in met.after.rows("waiting") + met.after.rows("running"):
        if row["spec"] is None and (row["job_id"], row["job_version"]) not in known:
            yield f"{row['run_id']} has no definition"
        if row["job_id"] not in jobs:
            yield f"{row['run_id']} has no job"
    if job is not None:
        for row in _untried(met):
            if row["job_version"] != job["version"]:
                yield f"{row['run_id']} will start as version {row['job_version']} of {job['version']}"


def paused_is_held(met: Met) -> Iterator[str]:
    job = _job(met.after, met.at)
    if job is None:
        return
    for row in met.after.rows("waiting"):
        if row["job_id"] == job["job_id"]:
            held = bool(row["held"] & Held.PAUSED)
            if job["status"] == PAUSED and not held and row["origin"] is None:
                yield f"{row['run_id']} of a paused job is not held"
            if job["status"] in (ACTIVE, FINISHED) and held:
                yield f"{row['run_id']} of a job that is not paused is held"


def cursors_move(met: Met) -> Iterator[str]:
    """An active job has a next instant, any other none."""
    cursors = {row["job_id"]: row["next_at"] for row in met.after.rows("agenda")}
    for job in met.after.rows("jobs"):
        comes = cursors.get(job["job_id"], 1 << 62) < 1 << 62
        if comes != (job["status"] == ACTIVE):
            yield f"job in status {job['status']} with next_at {cursors.get(job['job_id'])}"


def only_the_late_expire(met: Met) -> Iterator[str]:
    before = {row["run_id"]: row for row in met.before.rows("waiting")}
    for row in met.after.rows("history"):
        if row["state"] == State.EXPIRED:
            was = before.get(row["run_id"], {})
            late = was and was["expires_at"] < met.at.now and not was["token"]
            if not late or row["job_version"] != was["job_version"]:
                yield f"{row['run_id']} of version {row['job_version']} was not too late"


def counts_add_up(met: Met) -> Iterator[str]:
    counts = {row["what"]: row["n"] for row in met.after.rows("tally")}
    live = len(met.after.tables["waiting"]) + len(met.after.tables["running"])
    left = counts.get("created", 0) - sum(counts.get(end, 0) for end in ENDS)
    if left != live:
        yield f"{left} by the counters, {live} by the rows: {counts}"


def one_holder_of_a_key(met: Met) -> Iterator[str]:
    """Open jobs with the key `k`: one at most, and the one that has it."""
    holders = {row["job_id"] for row in met.after.rows("job_keys") if row["key"] == "k"}
    open_jobs = {row["job_id"] for row in met.after.rows("jobs") if row["status"] < FINISHED and _spec(row).key}
    for name in ("waiting", "running"):
        for row in met.after.rows(name):
            if row["run_id"] == row["job_id"] and _spec(row).key and not row.get("cancel_at"):
                open_jobs.add(row["job_id"])
    if not open_jobs <= holders:
        yield f"{len(open_jobs)} open jobs with one key, and {len(holders)} who hold it"


def _job(image: Image, at: Situation) -> Row | None:
    return next((row for row in image.rows("jobs") if row["job_id"] == str(at.job_id)), None)


def _all(image: Image) -> list[Row]:
    return [row for name in ("waiting", "running", "history") for row in image.rows(name)]


def _runs(image: Image, at: Situation) -> list[Row]:
    return [row for row in _all(image) if row["job_id"] == str(at.job_id)]


def _untried(met: Met) -> list[Row]:
    waiting = (row for row in met.after.rows("waiting") if row["job_id"] == str(met.at.job_id))
    return [row for row in waiting if row["origin"] is None and not row["token"] and row["spec"] is None]


def _spec(row: Mapping[str, Any]) -> Spec:
    return decode_spec(bytes.fromhex(row["spec"][2:]))


def payload_of(version: int) -> bytes:
    return FIRST_VERSION if version == 1 else SECOND_VERSION


RULES = (
    one_place_at_a_time,
    every_occurrence_once,
    tokens_only_rise,
    one_taker,
    what_was_claimed_is_held,
    cancelled_is_stopped,
    final_is_final,
    lanes_are_kept,
    meters_look_in_time,
    definitions_are_there,
    paused_is_held,
    cursors_move,
    only_the_late_expire,
    counts_add_up,
    one_holder_of_a_key,
)
