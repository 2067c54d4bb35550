"""Shared by the commands that call a server: options, printing of answers, and error messages."""

from __future__ import annotations

import re
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import click
import msgspec

from oncue.cli.destination import CONTEXT_NAME, Destination, answers, destination
from oncue.cli.output import MANY, ONE, Form, Output
from oncue.cli.printing import print_json, print_yaml, say
from oncue.cli.refusing import REFUSED, UNREACHABLE, refuse, say_problem
from oncue.cli.tables import Table, lines_of, print_lines
from oncue.cli.times import exact
from oncue.cli.watching import watch
from oncue.domain.instants import SECOND
from oncue.domain.plain_text import printable

if TYPE_CHECKING:  # importing the client takes 0.2 s, which would slow down `--help`
    from oncue.client import Client, ClientError, OncueApiError, ServerUnreachable
    from oncue.client.call import Call, Page

T = TypeVar("T")

RETRIES = 2  # few: a person is waiting,
TIMEOUT = 30.0  # seconds; and can press Ctrl-C when an answer takes too long
LARGEST_PAGE = 1_000
LONGEST_SEARCH = 5 * SECOND  # for what a filter leaves: the server looks at a bounded number of rows for each page

URL = click.option(
    "--url", envvar="ONCUE_URL", metavar="URL", help="The server's address. [default: that of this folder's server]"
)
_BY_KEY = "PUT /v1/jobs/by-key/{key}"
_REMEDIES = {
    " Send the header Authorization: Bearer <key>.": "",  # a line of its own says what a person does
    f"Replace it with {_BY_KEY}": "Change it with `oncue jobs edit` or `oncue apply`",
    f"create another job with {_BY_KEY}": "create another job with `oncue jobs create --key`",
}
_IDS = ("bulk_id", "run_id", "job_id", "worker_id", "key_id", "name", "setting")
_PARTS = ("sets", "steps", "tasks")  # of answers about several objects


def _keep_context(ctx: click.Context, _: click.Parameter, name: str | None) -> None:
    ctx.meta[CONTEXT_NAME] = name


CONTEXT = click.option(
    "--context",
    metavar="NAME",
    expose_value=False,
    callback=_keep_context,
    help="The server with this name; see `oncue context list`.",
)
SERVER = (URL, CONTEXT, *ONE)  # for a command that prints one object: `url` and `output`
LISTS = (URL, CONTEXT, *MANY)  # for a command that prints a list, the same with --columns and --watch
PAGES = (
    click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most N items."),
    click.option("--page-token", metavar="TOKEN", help="Continue where an earlier list ended."),
)


@contextmanager
def asking(
    url: str | None,
    *,
    as_json: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
    key: str | None = None,
) -> Iterator[Client]:
    """Open a client for this block; its errors end the command. `names` maps a field to what the user typed,
    unless that is the option that has the field's name."""
    from oncue.cli.calling import CommandClient
    from oncue.client import ClientError, ServerUnreachable

    to = destination(url)
    try:
        client = CommandClient(to, key, timeout=TIMEOUT, retries=RETRIES)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None
    try:
        with client:
            yield client
    except ServerUnreachable as away:
        _unreachable(away, to, as_json=as_json)
    except ClientError as no:
        say_refusal(no, names, as_json=as_json)
        sys.exit(REFUSED)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


def names_server(url: str | None) -> bool:
    """Whether a server is named: by an option, a variable, or the current context, if no server runs in this folder."""
    to = destination(url)
    return to.asked is not None or to.name is not None


def tell(client: Client, call: Call[T], show: Callable[[T, Output], None], output: Output) -> None:
    """Send a call and print the answer: by `show`, or as -o says."""
    if output.as_data:
        tell_data(client.ask(call.plain()), output)
    else:
        show(client.ask(call), output)


def tell_data(answer: Any, output: Output) -> None:
    """Print an answer of the API as JSON or YAML, or the ids in it."""
    match output.form:
        case Form.YAML:
            say("---")
            print_yaml(msgspec.to_builtins(answer))
        case Form.IDS:
            for one in ids_in(answer):
                say(one)
        case _:
            print_json(answer)


def ids_in(answer: Any) -> Sequence[str]:
    """Return the ids of the objects that an answer is about."""
    if isinstance(answer, list):
        return [one for part in answer for one in ids_in(part)]
    if not isinstance(answer, dict):
        return ()
    for name in ("run_ids", "job_ids"):
        if name in answer:
            return tuple(answer[name])
    own = next((answer[name] for name in _IDS if answer.get(name)), None)
    return (own,) if own else [one for name in _PARTS for part in answer.get(name) or () for one in ids_in(part)]


def tell_list(client: Client, call: Call[Page[T]], table: Table[T], limit: int, output: Output) -> None:
    """Fetch pages until there are `limit` items, and print them; as JSON they form one page like the API's."""

    def gathered() -> _Gathered[T]:
        return _gathered(client, call, table.name, limit, output)

    if output.every is not None:
        watch(lambda: lines_of(table, gathered().items, output), output)
        return
    found = gathered()
    if output.form in (Form.JSON, Form.YAML):
        page = {table.name: found.plain, "next_page_token": found.token, "looked_back_to": found.looked_back_to}
        tell_data(page, output)
        return
    _print_items(table, found.items, output)
    if found.token is not None and found.looked_back_to is not None:
        back_to = exact(found.looked_back_to, utc=output.utc)
        say(f"Searched back to {back_to}; continue with --page-token {found.token}", err=True)
    elif found.token is not None:
        say(f"More {table.title} exist; raise --limit, or continue with --page-token {found.token}", err=True)


def tell_whole_list(client: Client, call: Call[tuple[T, ...]], table: Table[T], output: Output) -> None:
    """Fetch and print a list that has no pages."""

    def items() -> tuple[T, ...]:
        return client.ask(call)

    if output.every is not None:
        watch(lambda: lines_of(table, items(), output), output)
    elif output.as_data and output.form is not Form.IDS:
        tell_data(client.ask(call.plain()), output)
    else:
        _print_items(table, items(), output)


def _print_items(table: Table[T], items: Sequence[T], output: Output) -> None:
    if output.form is Form.IDS:
        for one in filter(None, map(table.id_of, items)):
            say(str(one))
    elif output.for_people and not items:
        say(f"No {table.title}.", err=True)
    else:
        print_lines(lines_of(table, items, output))


def _following(call: Call[Page[T]], token: str) -> Call[Page[T]]:
    from oncue.client.call import following

    return following(call, token)


class _Gathered(msgspec.Struct, Generic[T]):
    """Items of one or more pages, as values and as the API's JSON."""

    items: list[T] = []
    plain: list[Any] = []
    token: str | None = None
    looked_back_to: datetime | None = None
    """Set if the search ended before `limit` items were found."""


def _gathered(client: Client, call: Call[Page[T]], name: str, limit: int, output: Output) -> _Gathered[T]:
    """Fetch up to `limit` items. A filter that matches little is followed over many pages, for some seconds."""
    found, until = _Gathered[T](), output.clock.monotonic() + LONGEST_SEARCH
    while True:
        size = {"limit": str(min(limit - len(found.items), LARGEST_PAGE))}
        asked = msgspec.structs.replace(call, params={**call.params, **size}, parse=_both_ways(call, name))
        page: Page[Any] = client.ask(asked)
        found.plain += [one for one, _ in page.items]
        found.items += [item for _, item in page.items]
        found.token = page.next_page_token
        if page.next_page_token is None or len(found.items) >= limit:
            return found
        if output.clock.monotonic() >= until:
            found.looked_back_to = page.looked_back_to
            return found
        call = _following(call, page.next_page_token)


def _both_ways(call: Call[Page[T]], name: str) -> Callable[[Any], Page[tuple[Any, T]]]:
    from oncue.client.call import Page

    def parse(answer: Any) -> Page[tuple[Any, T]]:
        page = call.parse(answer)
        both = tuple(zip(msgspec.json.decode(answer.body)[name], page.items, strict=True))
        return Page(both, page.next_page_token, page.looked_back_to)

    return parse


def say_refusal(no: ClientError, names: Mapping[str, str], *, as_json: bool, about: str = "") -> None:
    """Print why something was refused; `about` is the argument that it belongs to, if there are several."""
    from oncue.client import OncueApiError

    names = ChainMap(names, _options())  # type: ignore[arg-type]  # nothing is written to them
    before = f"{printable(about)}: " if about else ""
    if not isinstance(no, OncueApiError):
        say_problem(f"{before}{no}", as_json=as_json)
    elif as_json:
        print_json({**problem_of(no), **({"argument": about} if about else {})}, err=True)
    else:
        told = [(_option(one.path, names), _here(_as_typed(one.message, names))) for one in no.errors]
        lines = [f"{name}: {message}" if name else message for name, message in told]
        for line in lines or [_here(no.detail) or no.title]:
            say(f"{before}{line}", err=True)
        if no.status == 401:
            say(
                "Sign in with `oncue login URL`, or set the key in ONCUE_API_KEY. The key in a data directory is for "
                "the server that runs there.",
                err=True,
            )


def problem_of(no: OncueApiError) -> dict[str, Any]:
    """Return the members of a problem, as the server has sent them."""
    problem = {"type": no.type, "title": no.title, "status": no.status, "detail": no.detail, "errors": no.errors}
    return {**problem, **no.members}


def _options() -> dict[str, str]:
    """Map fields to options of this command, which have the names of the fields; `filter_task` is `filter.task`."""
    ctx = click.get_current_context(silent=True)
    params = () if ctx is None else ctx.command.params
    options = [one for one in params if isinstance(one, click.Option) and one.name is not None]
    return {re.sub(r"\Afilter_", "filter.", one.name or ""): max(one.opts, key=len) for one in options}


def _option(path: str, names: Mapping[str, str]) -> str:
    """Return the option of a field; `tags.0` is one of several values of `--tag`."""
    return names.get(path) or names.get(re.sub(r"\.\d+\Z", "", path)) or path


def _as_typed(message: str, names: Mapping[str, str]) -> str:
    """Name the option where a message names another field, such as start_time."""
    options = {path.rpartition(".")[2]: option for path, option in names.items()}
    return re.sub(r"\b[a-z]+_[a-z_]+\b", lambda found: options.get(found[0], found[0]), message)


def _here(message: str) -> str:
    """Name the command where a message names a call of the API."""
    for call, command in _REMEDIES.items():
        message = message.replace(call, command)
    return message


def _unreachable(away: ServerUnreachable, to: Destination, *, as_json: bool) -> NoReturn:
    message = f"No server at {away.url}. Start one with `oncue up`, or name another with --url or ONCUE_URL."
    if away.sent:
        message = f"{away}. The request may or may not have been applied; check before you repeat it."
    elif to.unnamed and answers(away.url):
        message = (
            f"No server of this folder runs here, and the one at {away.url} is another. Start one with `oncue up`, or "
            f"name that one: `oncue login {away.url}`, or --url {away.url} and its key in ONCUE_API_KEY."
        )
    refuse(message, as_json=as_json, title="Server Unreachable", code=UNREACHABLE)
