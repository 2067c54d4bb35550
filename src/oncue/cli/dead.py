"""`oncue dead`: inspect dead letters, run them again and discard them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from oncue.cli import naming, time_option
from oncue.cli.asking import LISTS, PAGES, SERVER, asking, tell_data, tell_list
from oncue.cli.completing import queue_names, task_names
from oncue.cli.each import on_each
from oncue.cli.following import END_WITH_THE_RUN, WAIT, check_wait, follow_again
from oncue.cli.groups import Group
from oncue.cli.job_options import payload_of
from oncue.cli.many import LETTERS_OR_ALL, Which, act_on_all, doing
from oncue.cli.naming import LETTER_HELP, as_table, find_letter, job_id_of, letters_counted
from oncue.cli.output import Output, say_sentence
from oncue.cli.refusing import confirm
from oncue.cli.roles import options
from oncue.cli.sentences import id_shown, ran_again
from oncue.cli.showing import DEAD, show_run
from oncue.cli.time_option import TIME

if TYPE_CHECKING:
    from oncue.client import Client, ClientError
    from oncue.client.call import Call
    from oncue.client.naming import MeantRun

EXAMPLES = f"""\b
Examples:
  oncue dead list
  oncue dead show 84359e35
  oncue dead show hello
  oncue dead requeue 84359e35 1b9d6bcd
  oncue dead requeue --all --task hello
  oncue dead discard --all --until "30d ago" --yes

{LETTER_HELP}
"""
NAMES = {"payload_patch": "--patch"}
MOST_SHOWN = 5  # of the letters of a task that one name may mean


@click.group("dead", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Inspect, run again and discard dead letters."""


LIST = f"""\b
Examples:
  oncue dead list --limit 10
  oncue dead list --job greeting --from "1d ago"
  oncue dead list --task hello --json | jq '.dead_letters[].payload'

{time_option.HELP}
"""


@command.command("list", epilog=LIST)
@click.option("--task", shell_complete=task_names, help="Of this task.")
@click.option("--queue", shell_complete=queue_names, help="Of this queue.")
@naming.job_option()
@click.option("--from", "start_time", type=TIME, help="Runs scheduled for this time or later.")
@click.option("--until", "end_time", type=TIME, help="Runs scheduled for before this.")
@click.option("--fingerprint", metavar="HEX", help="Of this group of errors; see `oncue errors`.")
@click.option("--user", "user_id", help="Of this user (admin).")
@options(PAGES, LISTS)
def list_(url: str | None, output: Output, limit: int, job_id: str | None, **filters: Any) -> None:
    """List dead letters, newest first."""
    from oncue.client import dead_letters

    with asking(url, as_json=output.as_json) as client:
        job = None if job_id is None else job_id_of(client, job_id)
        tell_list(client, dead_letters.page(job_id=job, **filters), DEAD, limit, output)


@command.command(
    "show", epilog="\b\nExamples:\n  oncue dead show 84359e35\n  oncue dead show greeting --json | jq .payload"
)
@naming.RUNS
@options(SERVER)
def show(url: str | None, output: Output, given_runs: tuple[str, ...]) -> None:
    """Show a dead letter with payload and attempts."""
    with asking(url, as_json=output.as_json) as client:
        on_each(given_runs, lambda run: _show(client, find_letter(client, run, closed=True).run_id, output), output)


def _show(client: Client, run_id: UUID, output: Output) -> None:
    import msgspec

    from oncue.client import dead_letters
    from oncue.shapes.runs import DeadLetter

    found = client.ask(dead_letters.show(run_id).plain())
    if found["status"] != "dead":
        raise _no_letter(run_id, output)
    if output.as_data:
        tell_data(found, output)
    else:
        show_run(msgspec.convert(found, DeadLetter), output)


REQUEUE = """\b
Examples:
  oncue dead requeue 84359e35
  oncue dead requeue 84359e35 --payload '{"name": "them"}'
  oncue dead requeue 84359e35 --wait --timeout 10m
  oncue dead requeue --all --fingerprint 3f2a91c07be45d18
  oncue dead requeue --all --task hello --patch '{"retries": null}' --yes
  oncue dead list --from "1h ago" -q | oncue dead requeue -

--patch changes a part of each payload: null removes a name, objects are merged.
"""


@command.command("requeue", epilog=REQUEUE)
@click.option("--payload", metavar="JSON|@FILE", help="Another payload for the only RUN; @- reads standard input.")
@click.option("--patch", metavar="JSON|@FILE", help="What changes in the payload of each.")
@options(LETTERS_OR_ALL, WAIT, SERVER)
def requeue(
    url: str | None,
    output: Output,
    which: Which,
    payload: str | None,
    patch: str | None,
    wait: bool,
    wait_timeout: float | None,
) -> None:
    """Run dead letters again, as new runs."""
    from oncue.client import dead_letters

    check_wait(wait, wait_timeout)
    changed: dict[str, Any] = {}
    if payload is not None:
        changed["payload"] = payload_of(payload)
    if patch is not None:
        changed["payload_patch"] = payload_of(patch)

    if payload is not None and len(which.given) != 1:
        raise click.UsageError("--payload is for one RUN; --patch changes a part of each")
    if which.everything and wait:
        raise click.UsageError("--wait is for the runs that are named; leave out --all")
    succeeded: list[bool] = []

    def told(run_id: UUID, answer: Any) -> None:
        if wait:
            succeeded.append(follow_again(client, run_id, UUID(answer["run_ids"][0]), wait_timeout, output))
        else:
            _tell(answer, ran_again(run_id, answer["run_ids"][0], output), output)

    with asking(url, as_json=output.as_json, names=NAMES) as client:
        if which.everything:
            act_on_all(client, which, "requeue", "dead_letters", output, **changed)
        else:
            _on_named(client, which, lambda one: dead_letters.requeue([one], **changed), "requeue", output, told)
    raise SystemExit(END_WITH_THE_RUN[all(succeeded)])


DISCARD = """\b
Examples:
  oncue dead discard 84359e35
  oncue dead discard --all --until "30d ago" --yes
"""


@command.command("discard", epilog=DISCARD)
@options(LETTERS_OR_ALL, SERVER)
def discard(url: str | None, output: Output, which: Which) -> None:
    """Discard dead letters; their runs stay in history."""
    from oncue.client import dead_letters

    with asking(url, as_json=output.as_json, names=NAMES) as client:
        if which.everything:
            act_on_all(client, which, "discard", "dead_letters", output)
        else:
            _on_named(
                *(client, which, lambda one: dead_letters.discard([one]), "discard", output),
                lambda _, answer: _tell(answer, "Discarded 1 dead letter.", output),
            )


def _tell(answer: Any, words: str, output: Output) -> None:
    if output.as_data:
        tell_data(answer, output)
    else:
        say_sentence(words, output)


def _on_named(
    client: Client,
    which: Which,
    build: Callable[[UUID], Call[Any]],
    action: str,
    output: Output,
    told: Callable[[UUID, Any], None],
) -> None:
    """Ask for each letter by itself: the answer to many does not say which of them were left out."""

    def act(run: str) -> None:
        found = find_letter(client, run)
        if len(found.letters) > 1 and not which.yes:
            _sure_of_newest(found, action)
        run_id = found.run_id
        answer = client.ask(build(run_id).plain())
        if not answer["count"]:
            raise _refusal(client, run_id, answer, output)
        told(run_id, answer)

    on_each(which.given, act, output, NAMES)


def _sure_of_newest(found: MeantRun, action: str) -> None:
    """Ask people whether they mean the newest of several letters of a task; scripts have to say so."""
    if sys.stdin.isatty():
        confirm(f"{doing(action, 'it')}?")
        return
    from oncue.client import ClientError

    raise ClientError(
        f"Task {found.task} has {letters_counted(found)}. Use the id of one, --yes for the newest, or --all --task "
        f"{found.task} for all of them:\n{as_table(DEAD, found.letters[:MOST_SHOWN])}"
    )


def _refusal(client: Client, run_id: UUID, answer: Any, output: Output) -> ClientError:
    """Return why nothing was done with a letter."""
    import msgspec

    from oncue.client import ClientError, Invalid, dead_letters
    from oncue.client.errors import FieldProblem

    if answer.get("refused"):
        problems = msgspec.convert(answer["refused"][0]["errors"], tuple[FieldProblem, ...])
        return Invalid(422, "Unprocessable Content", "The letter stays: its new payload does not fit.", problems)
    if client.ask(dead_letters.show(run_id)).status != "dead":
        return _no_letter(run_id, output)
    shown = id_shown(run_id, output)
    return ClientError(f"Run {shown} was run again or discarded before; `oncue runs retry {shown}` runs it again.")


def _no_letter(run_id: UUID, output: Output) -> ClientError:
    from oncue.client import ClientError

    shown = id_shown(run_id, output)
    return ClientError(f"Run {shown} is not a dead letter; see `oncue runs show {shown}`.")
