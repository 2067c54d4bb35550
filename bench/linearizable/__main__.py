"""Whether what eight clients are answered on one key could have happened one after the other, while servers are killed.

    python -m bench.linearizable                                 # both engines: 200 keys and 30 kills each
    python -m bench.linearizable --only sqlite --keys 50 --kills 8 --seed 7
    python -m bench.linearizable --planted                       # servers with a planted fault each: is it found?

Eight clients call one key after the other through two API processes: PUT by key with and without If-Match and
If-None-Match, PATCH with and without If-Match, pause, resume, DELETE, runNow with an Idempotency-Key, GET by key and by
id; some requests are repeated. Meanwhile an API is killed with SIGKILL, or PostgreSQL restarted with `-m immediate`
(on SQLite `up` and an API on the same file are killed), and started again. Each call is written down with its begin,
its end and its answer, or as unknown: no answer, a reset, 503. Then the history of the key is compared with the
sequential model of a key (model.py) by a search (search.py). Read strictly: status, definition, version and ETag of
each answer are what the model says. The exit code is 1 unless all keys are linearizable; with `--planted`, unless
each fault is found. Histories that are not are kept as a file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread

from bench.linearizable.clients import CalledKey, Unexpected
from bench.linearizable.faults import FAULTS, FORGOTTEN_COMMITS
from bench.linearizable.model import Call
from bench.linearizable.search import Verdict, check
from bench.linearizable.servers import Servers, serving

CLIENTS, CALLS = 8, 100  # calls on a key
CALLS_KILLED = 3  # times as many while something is killed
SHOWN = 400  # characters of an unexpected answer
FIRST, LAST = 0.02, 0.4  # seconds after the first call on the key, between which something is killed
PLANTED_KEYS, PLANTED_KILLS = 40, 20  # at most: the first that is found is enough


@dataclass
class Found:
    engine: str
    seed: int
    keys: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)  # of calls
    longest_search_ms: float = 0.0
    most_states: int = 0
    wrong: list[str] = field(default_factory=list)  # keys whose answers have no order
    failed: list[str] = field(default_factory=list)  # keys with an answer that no call has, such as a 500
    seconds: float = 0.0

    @property
    def calls(self) -> int:
        return self.counts["ok"] + self.counts["refused"] + self.counts["unknown"]


def measure(
    engine: str,
    keys: int,
    kills: int,
    seed: int,
    calls: int = CALLS,
    fault: str | None = None,
    kept: Path | None = None,
) -> Found:
    """Let clients call so many keys. With a planted `fault`: until it is found. `kept`: for what does not fit."""
    found, chance, began = Found(engine, seed), Random(seed), time.monotonic()
    killed = {round((number + 0.5) * keys / kills) if kills < keys else number for number in range(kills)}
    with tempfile.TemporaryDirectory() as folder, serving(engine, Path(folder), fault) as servers:
        for number in range(keys):
            _one_key(servers, found, f"k{seed}-{number}", chance, calls, kept, killing=number in killed)
            if fault is not None and found.wrong + found.failed:
                break
    found.seconds = time.monotonic() - began
    return found


def _one_key(
    servers: Servers, found: Found, name: str, chance: Random, calls: int, kept: Path | None, *, killing: bool
) -> None:
    found.keys += 1
    killer = None
    if killing:
        what = servers.kills[found.kills.total() % len(servers.kills)]
        found.kills[what] += 1
        killer = Thread(target=_kill, args=(servers, what, chance.uniform(FIRST, LAST)))
        killer.start()
    key = CalledKey(name, calls * (CALLS_KILLED if killing else 1))
    try:
        key.call([partial(servers.door, number) for number in (0, 1)], CLIENTS, name)
        if killer is not None:
            killer.join()
            servers.wait()
        key.read_all(servers.door(0))
    except Unexpected as error:
        found.failed.append(f"{name}: {str(error)[:SHOWN]}")
        return
    _judge(found, name, key, kept)


def _kill(servers: Servers, what: str, after: float) -> None:
    time.sleep(after)
    servers.kill(what)


def _judge(found: Found, name: str, key: CalledKey, kept: Path | None) -> None:
    began = time.perf_counter()
    verdict = check(key.calls)
    found.longest_search_ms = max(found.longest_search_ms, 1_000 * (time.perf_counter() - began))
    found.most_states = max(found.most_states, verdict.states)
    found.counts += key.counts
    if not verdict.linearizable:
        found.wrong.append(f"{name}: {verdict.why}")
        if kept is not None:
            (kept / f"{found.engine}-{name}.txt").write_text(told(verdict, key.calls))


def told(verdict: Verdict, calls: list[Call]) -> str:
    """What somebody needs to know who looks for the cause: how far an order goes, what does not fit, and all calls."""
    first = min((call.invoked for call in calls), default=0)

    def line(call: Call) -> str:
        said = {name: value for name, value in call._asdict().items() if value not in (None, "", False, 0)}
        begin, end = said.pop("invoked", 0) - first, said.pop("returned", 0) - first
        span = f"{begin / 1e6:9.2f} .. {end / 1e6:9.2f} ms" if call.known else f"{begin / 1e6:9.2f} ..   unknown   "
        return f"{span}  {' '.join(f'{name}={value}' for name, value in said.items())}"

    parts: Mapping[str, list[str]] = {
        f"{verdict.why}; linearizable: {verdict.linearizable}; states: {verdict.states}": [],
        "The longest order:": [line(call) for call in verdict.order],
        f"then {verdict.key}": [],
        "None of these fits:": [line(call) for call in verdict.stuck],
        "All calls:": [line(call) for call in sorted(calls, key=lambda one: one.invoked)],
    }
    return "\n\n".join("\n".join([title, *lines]) for title, lines in parts.items()) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=["sqlite", "postgres"], help="one engine")
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument(
        "--calls", type=int, default=CALLS, help="on a key; three times as many where something is killed"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--planted", action="store_true", help="servers with a planted fault each")
    parser.add_argument("--kept", type=Path, default=Path(), help="the folder for histories that are not linearizable")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    asked = parser.parse_args()
    asked.kept.mkdir(parents=True, exist_ok=True)
    all_found, well = list[Found](), True
    for engine in [asked.only] if asked.only else ["sqlite", "postgres"]:
        if asked.planted:
            well = _planted(engine, asked.seed, asked.calls) and well
            continue
        found = measure(engine, asked.keys, asked.kills, asked.seed, asked.calls, kept=asked.kept)
        all_found.append(found)
        well = well and not found.wrong + found.failed
        print(_line(found), *found.wrong, *found.failed, sep="\n  ")
    if asked.json:
        asked.json.write_text(json.dumps([vars(found) | {"calls": found.calls} for found in all_found], indent=1))
    return 0 if well else 1


def _planted(engine: str, seed: int, calls: int) -> bool:
    faults = [*FAULTS, FORGOTTEN_COMMITS] if engine == "postgres" else [*FAULTS]
    missed = list[str]()
    for fault in faults:
        kills = PLANTED_KILLS if fault == FORGOTTEN_COMMITS else 0
        found = measure(engine, PLANTED_KEYS, kills, seed, calls, fault)
        how = f"found on key {found.keys}" if found.wrong else f"NOT FOUND {' '.join(found.failed)}"
        print(f"{engine}: {fault}: {how}, {found.seconds:.0f} s")
        missed += [] if found.wrong else [fault]
    print(f"{engine}: {len(faults) - len(missed)} of {len(faults)} planted faults found")
    return not missed


def _line(found: Found) -> str:
    counts, well = found.counts, found.keys - len(found.wrong + found.failed)
    return (
        f"{found.engine}, seed {found.seed}: {found.keys} keys, {well} linearizable; "
        f"{found.kills.total()} kills ({', '.join(f'{n} of {what}' for what, n in found.kills.items()) or 'none'}); "
        f"{found.calls} calls: {counts['ok']} ok, {counts['refused']} refused ({counts['gave up']} gave up), "
        f"{counts['unknown']} unknown; {counts['not sent']} not sent; "
        f"longest search {found.longest_search_ms:.0f} ms, {found.most_states} states; {found.seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
