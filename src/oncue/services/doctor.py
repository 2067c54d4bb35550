"""`oncue doctor`: look at the database, the processes on it and this machine, and say what to do about what is wrong.

Everything is only read, except for two probes that write, to the database and to object storage: nothing is migrated,
created or repaired.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from oncue.clock import Clock
from oncue.domain.diagnosis import Diagnosis, State, ok, problem, warning
from oncue.domain.errors import Invalid, OncueError, StoreForbidden, StoreUnavailable
from oncue.domain.instants import MILLISECOND, MINUTE, SECOND, Duration
from oncue.domain.plain_text import printable
from oncue.domain.shown_url import shown_url
from oncue.engines.open import is_file, may_exist, open_engine, pending
from oncue.engines.port import Engine
from oncue.engines.schema import Pending, named
from oncue.log import log
from oncue.services.cluster_checks import diagnose_cluster
from oncue.services.machine_checks import diagnose_machine
from oncue.services.retention import letters_at_risk
from oncue.services.storage_checks import diagnose_storage
from oncue.settings import Settings

SLOW_WRITE = Duration(SECOND // 4)
STALLED_AFTER = Duration(SECOND)
CLOCK_DIFFERENCE = Duration(SECOND)
LONG_IN_OUTBOX = Duration(MINUTE)

REACH_IT = "Check the setting `engine`, that the database server runs, and that this machine can reach it."
READ_IT = "Check the setting `engine`, and the file: that it is a database of oncue, and that this user may write it."
GRANT_IT = "Run ops/postgres/roles.sql, or grant this user what it grants to oncue_app."
CONFIRM_IT = "Start or replace the replica, or take it out of synchronous_standby_names and reload the primary."
CREATE_IT = "Check --engine and --data-dir, or create the database: `oncue migrate`, or start `oncue up`."

Check = Callable[[], Awaitable[list[Diagnosis]]]


async def diagnose(settings: Settings, clock: Clock) -> list[Diagnosis]:
    """Look at everything. `clock` is this machine's: it does not follow the database's."""
    found: list[Diagnosis] = []
    try:
        await _look_at_database(settings, clock, found)
    except Invalid:
        raise  # the setting is wrong, not the database
    except StoreForbidden as no:
        found.append(problem("rights", str(no), GRANT_IT))
    except StoreUnavailable as no:
        found.append(problem("database", str(no), READ_IT if is_file(settings.engine) else REACH_IT))
    except OncueError as no:
        found.append(problem("database", str(no), "Check the setting `engine`, and the version of this program."))
    except Exception as no:  # whatever is wrong with the database: the other checks follow
        found.append(unexpected("database", no))
    found += await _safely("storage", lambda: diagnose_storage(settings, clock))
    return [*found, *diagnose_machine(Path(settings.data_dir))]


async def _look_at_database(settings: Settings, clock: Clock, found: list[Diagnosis]) -> None:
    """Add to what is found step by step: what was seen before an outage stays."""
    if not may_exist(settings.engine):
        found.append(problem("database", f"there is no database at {printable(shown_url(settings.engine))}", CREATE_IT))
        return
    found.append(schema(await pending(settings)))
    if found[-1].state is State.PROBLEM:
        return
    engine = await open_engine(settings)
    try:
        for name, check in _checks(engine, settings, clock).items():
            found += await _safely(name, check)
    finally:
        await engine.close()


def _checks(engine: Engine, settings: Settings, clock: Clock) -> dict[str, Check]:
    async def cluster() -> list[Diagnosis]:
        return diagnose_cluster(await engine.history.gauges(await engine.now()))

    return {
        "database": lambda: _writable(engine, clock),
        "clock": lambda: _clocks(engine, clock),
        "server": engine.diagnose,
        "cluster": cluster,
        "dead letters": lambda: _kept(engine, settings),
        "outbox": lambda: _outbox(engine),
    }


async def _safely(name: str, check: Check) -> list[Diagnosis]:
    """Return what a check sees. Its error is a problem, and others follow; only an outage ends them all."""
    try:
        return await check()
    except StoreForbidden as no:
        return [problem("rights", str(no), GRANT_IT)]
    except (StoreUnavailable, Invalid):
        raise
    except Exception as no:
        return [unexpected(name, no)]


def unexpected(name: str, no: Exception) -> Diagnosis:
    seen = f"this check failed: {' '.join(printable(str(no)).split())[:200] or type(no).__name__}"
    return problem(name, seen, "The database may be damaged or incomplete: restore a backup, or report this.")


async def _kept(engine: Engine, settings: Settings) -> list[Diagnosis]:
    """Look for what retention will soon take. With the limits of this command, which has the defaults."""
    remedy = "Run them again or discard them, or raise --keep-dead-letters and --most-dead-letters of the schedulers."
    return [
        warning("dead letters that go soon", printable(why), remedy)
        for why in await letters_at_risk(engine, settings, await engine.now())
    ]


async def _outbox(engine: Engine) -> list[Diagnosis]:
    """Look for jobs that applications enqueued and that are not created."""
    if not engine.capabilities.outbox:
        return []
    found, now = await engine.outbox.state(), await engine.now()
    age = Duration(0 if found.oldest is None else max(0, now - found.oldest))
    seen = f"{found.waiting:,} waiting, the oldest for {age // SECOND:,} s; {found.refused:,} refused"
    remedy = "Read the reasons with `oncue outbox list`, remove them, then `oncue outbox retry --all`, or discard them."
    if age >= LONG_IN_OUTBOX or found.refused:
        return [warning("outbox", seen, remedy)]
    return [ok("outbox", seen)]


async def log_problems(engine: Engine, settings: Settings, clock: Clock) -> None:
    """Look at the database itself and at this machine, as a process does once when it starts, and log what is wrong."""
    try:
        found = [*await _clocks(engine, clock), *await engine.diagnose()]
    except StoreUnavailable:
        return  # other lines say so
    for one in (*found, *diagnose_machine(Path(settings.data_dir))):
        if one.state is not State.OK:
            log.warning(
                "A check of this installation failed", kind="doctor", check=one.check, seen=one.seen, remedy=one.remedy
            )


def schema(found: Pending) -> Diagnosis:
    if found.others:
        seen = f"the database has no table of oncue, but other tables: {named(found.others)}"
        return problem("schema", seen, "Check --engine. A database or schema of its own is best for oncue.")
    if not found.version:
        return problem("schema", "the database is empty", CREATE_IT)
    if found.expand:
        numbers = ", ".join(map(str, found.expand))
        seen = f"version {found.version}; missing migrations: {numbers}. The other checks were skipped"
        return problem("schema", seen, "Run `oncue migrate`, then repeat this command.")
    later = f"; `oncue migrate --contract` is left to run ({len(found.contract)})" if found.contract else ""
    older = f"; this program knows versions up to {found.newest}" if found.newest else ""
    return ok("schema", f"version {found.version}, for oncue of schema {found.level} or later{later}{older}")


async def _writable(engine: Engine, clock: Clock) -> list[Diagnosis]:
    if (why := await engine.standstill.check(STALLED_AFTER)) is not None:
        return [problem("database", f"it answers, but does not confirm writes: {why}", CONFIRM_IT)]
    asked = clock.monotonic()
    await engine.probe()
    return [writable(Duration(clock.monotonic() - asked))]


def writable(took: Duration) -> Diagnosis:
    seen = f"a write took {took / MILLISECOND:.1f} ms"
    if took < SLOW_WRITE:
        return ok("database", seen)
    return warning("database", seen, "Check the load of the database and its disk, and the network in between.")


async def _clocks(engine: Engine, clock: Clock) -> list[Diagnosis]:
    asked, here = clock.monotonic(), clock.now()
    there = await engine.now()
    took = clock.monotonic() - asked
    return [clocks(Duration(here + took // 2 - there), Duration(took))]


def clocks(ahead: Duration, took: Duration) -> Diagnosis:
    """`ahead`: of this machine's clock. The database read its own at any moment while the answer `took` its time."""
    seen = f"this machine's clock is {abs(ahead) / SECOND:.3f} s {'ahead of' if ahead > 0 else 'behind'} the database's"
    if abs(ahead) - took // 2 <= CLOCK_DIFFERENCE:
        return ok("clock", seen)
    return warning("clock", seen, "Synchronise the clocks of both machines (NTP). oncue itself uses the database's.")
