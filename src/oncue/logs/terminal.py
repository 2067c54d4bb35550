"""Log lines for a person who watches a terminal: the time and a sentence."""

from __future__ import annotations

import re
from typing import Any

from oncue.domain.instants import Instant, moment
from oncue.logs.lines import one_line

_COLOURS = {"warning": "33", "error": "31", "critical": "31"}
_APPLIED = {"create": "created", "change": "changed", "adopt": "adopted", "prune": "cancelled, the code has it no more"}
_SHORT_ID = 8  # digits, as in tables
_LOGGED_AT = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ")  # before what a task logs: these lines have a time


def as_short(line: dict[str, Any], now: Instant, *, colours: bool) -> str:
    said = one_line(_sentence(line))
    colour = _COLOURS.get(line.get("level", "")) if colours else None
    at = f"{moment(now).astimezone():%H:%M:%S}"
    return f"{at}  \033[{colour}m{said}\033[0m" if colour else f"{at}  {said}"


def _sentence(line: dict[str, Any]) -> str:
    if "more" in line:
        return f"{line['event']}: {line['more']} {line['kind']}"
    match line["kind"]:
        case "run_ended":
            return f"{_run(line)}: {line['status']} in {_length(line['seconds'])}{_attempt(line)}"
        case "attempt_failed":
            return (
                f"{_run(line)}: attempt {line['attempt']} failed: {_error(line)}; retry in {_length(line['retry_in'])}"
            )
        case "run_dead":
            look = f"oncue dead show {line['run_id'][-_SHORT_ID:]}"
            return f"{_run(line)}: attempt {line['attempt']} failed permanently: {_error(line)}; see `{look}`"
        case "run_output":
            return f"{_run(line)}: {_LOGGED_AT.sub('', line['output']).expandtabs(4)}"
        case "run_output_cut":
            look = f"oncue runs logs {line['run_id'][-_SHORT_ID:]}"
            return f"{_run(line)}: … {line['lines']:,} more lines, see `{look}`"
        case "run_late":
            return f"{_run(line)}: started {_length(line['seconds'])} late"
        case "reload":
            return f"reload: {', '.join(line['files'])} changed; the worker restarts"
        case "reloaded":
            queues = f" and takes the queues {', '.join(line['queues'])}" if "queues" in line else ""
            return f"reload: the worker has restarted in {_length(line['seconds'])} with {line['tasks']} tasks{queues}"
        case "schedule_applied":
            changed = f" ({', '.join(line['changes'])})" if line["changes"] else ""
            return f"schedule {line['key']}: {_APPLIED.get(line['action'], line['action'])}{changed}"
        case "stopping":
            return "Stopping at once" if line["at_once"] else "Stopping"
        case "waiting_for_runs":
            more = line["active"] - len(line["runs"])
            runs = ", ".join(line["runs"]) + (f" and {more} more" if more else "")
            hint = f"; {line['hint']}" if "hint" in line else ""
            return f"Waiting at most {line['at_most']} for {runs}{hint}"
        case "drained":
            return f"The worker ends: {line['finished']} finished, {line['returned']} returned to the queue"
        case _:
            return str(line["event"]) + "".join(
                f": {line[name]}" for name in ("service", "why", "error") if line.get(name)
            )


def _run(line: dict[str, Any]) -> str:
    name = line.get("name")
    about = [name] if name and name != line["task"] else []
    return f"{line['task']} ({', '.join([*about, line['run_id'][-_SHORT_ID:]])})"


def _attempt(line: dict[str, Any]) -> str:
    return f", attempt {line['attempt']}" if line["attempt"] > 1 else ""


def _error(line: dict[str, Any]) -> str:
    error = line.get("error")
    return f"{line['error_type']}: {error}" if error else str(line["error_type"])


def _length(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
