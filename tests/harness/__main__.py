"""Random stories against real processes, through public interfaces only.

    .venv/bin/python -m tests.harness --engine sqlite --seeds 1 2 3 --seconds 30

The same seed makes the same plan: which jobs, what clients do to them, what goes wrong and when. How processes
interleave is up to the machine, so a violation may take a few runs of its seed to come back.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.harness.evidence import PATIENCE
from tests.harness.plan import PLACES, Plan, make_plan
from tests.harness.planted import BUGS, OF_CLOCKS, planted
from tests.harness.story import Told, about, tell

MOST_SHOWN = 5  # violations that are told in full


Make = Callable[[int], Plan]
Tell = Callable[[Plan, Path, dict[str, str] | None, float], Told]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness", description=__doc__)
    parser.add_argument("--engine", choices=[*PLACES], default="sqlite")
    parser.add_argument("--calm", action="store_true", help="nothing goes wrong")
    options = options_of_stories(parser, seconds=30).parse_args()

    def make(seed: int) -> Plan:
        return make_plan(seed, options.engine, options.seconds, calm=options.calm)

    return run_all(options, make, tell)


def options_of_stories(parser: argparse.ArgumentParser, *, seconds: float) -> argparse.ArgumentParser:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], metavar="N")
    parser.add_argument("--seconds", type=float, default=seconds, help=f"of each story (default: {seconds:.0f})")
    parser.add_argument("--plan", action="store_true", help="print the plans, and do nothing")
    parser.add_argument("--plant", choices=[*BUGS, *OF_CLOCKS], help="with this bug in oncue")
    parser.add_argument("--keep", type=Path, help="where logs and files stay; else they do only after a violation")
    return parser


def run_all(options: argparse.Namespace, make: Make, tell_it: Tell) -> int:
    """The exit code: 1 if anything was wrong."""
    wrong = 0
    for seed in options.seeds:
        plan = make(seed)
        if options.plan:
            print(f"seed {seed}: {plan}", *plan.faults, *plan.acts, sep="\n")
        else:
            wrong += one(plan, options, tell_it)
    if not options.plan:
        print(f"{len(options.seeds)} seeds, {options.seconds:.0f} s each: {wrong} violations")
    return 1 if wrong else 0


def one(plan: Plan, options: argparse.Namespace, tell_it: Tell) -> int:
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"oncue-harness-{plan.seed}-", dir=options.keep))
    print(f"seed {plan.seed} on {plan.engine}: {plan}", flush=True)
    bug = planted(options.plant) if options.plant else None
    told = tell_it(plan, folder, bug, PATIENCE)
    took = time.monotonic() - began
    print(f"  {told.figures}; {len(told.violations)} violations; {took:.0f} s", flush=True)
    for violation in told.violations[:MOST_SHOWN]:
        print(about(told, violation, folder), flush=True)
    for violation in told.violations[MOST_SHOWN:]:
        print(f"*** {violation}"[:500], flush=True)
    if told.violations:
        print(f"  seed {plan.seed}: everything is in {folder}", flush=True)
    elif options.keep is None:
        shutil.rmtree(folder)
    return len(told.violations)


if __name__ == "__main__":
    sys.exit(main())
