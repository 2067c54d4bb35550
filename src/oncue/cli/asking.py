"""Shared by the commands that call a server: options, printing of answers, and error messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from oncue.cli.printing import print_json, print_table
from oncue.cli.refusing import REFUSED, UNREACHABLE, refuse

if TYPE_CHECKING:  # importing the client takes 0.2 s, which would slow down `--help`
    from oncue.client import Client, OncueApiError, ServerUnreachable
    from oncue.client.call import Call, Page

T = TypeVar("T")

RETRIES = 2  # few: a person is waiting,
TIMEOUT = 30.0  # seconds; and can press Ctrl-C when an answer takes too long
LARGEST_PAGE = 1_000

URL = click.option(
    "--url", envvar="ONCUE_URL", metavar="URL", help="The server's address. [default: http://127.0.0.1:8470]"
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print the API's answer as JSON.")
SERVER = (URL, JSON)
PAGES = (
    click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most N items."),
    click.option("--page-token", metavar="TOKEN", help="Continue where an earlier list ended."),
)


@contextmanager
def asking(
    url: str | None, *, as_json: bool = False, names: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Client]:
    """Open a client for this block; its errors end the command. `names` maps a field to the option the user typed."""
    from oncue.client import Client, ClientError, OncueApiError, ServerUnreachable

    try:
        client = Client(url, timeout=TIMEOUT, retries=RETRIES)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None
    try:
        with client:
            yield client
    except OncueApiError as no:
        _refused(no, names, as_json=as_json)
    except ServerUnreachable as away:
        _unreachable(away, as_json=as_json)
    except ClientError as error:
        refuse(str(error), as_json=as_json)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


def tell(client: Client, call: Call[T], show: Callable[[T], None], *, as_json: bool) -> None:
    """Send a call and print the answer: formatted, or as the API's JSON."""
    if as_json:
        print_json(client.ask(call.plain()))
    else:
        show(client.ask(call))


def tell_list(
    client: Client,
    call: Call[Page[T]],
    name: str,
    limit: int,
    columns: Sequence[str],
    row: Callable[[T], Sequence[str]],
    *,
    as_json: bool,
) -> None:
    """Fetch pages until there are `limit` items, and print them; as JSON they form one page like the API's."""
    found, token = _gathered(client, call, name, limit)
    if as_json:
        print_json({name: [one for one, _ in found], "next_page_token": token})
        return
    below = [] if token is None else [f"more items exist; raise --limit, or continue with --page-token {token}"]
    words = name.replace("_", " ")
    print_table(
        f"{len(found)} {words.removesuffix('s') if len(found) == 1 else words}",
        columns,
        [row(item) for _, item in found],
        below,
    )


def _gathered(client: Client, call: Call[Page[T]], name: str, limit: int) -> tuple[list[tuple[Any, T]], str | None]:
    """Fetch items, each as JSON and as a value. A filtered page may be short or empty although more pages follow."""
    import msgspec

    found: list[tuple[Any, T]] = []
    while True:
        size = {"limit": str(min(limit - len(found), LARGEST_PAGE))}
        asked = msgspec.structs.replace(call, params={**call.params, **size}, parse=_both_ways(call, name))
        page: Page[Any] = client.ask(asked)
        found += page.items
        if page.next_page_token is None or len(found) >= limit:
            return found, page.next_page_token
        call = msgspec.structs.replace(call, params={**call.params, "page_token": page.next_page_token})


def _both_ways(call: Call[Page[T]], name: str) -> Callable[[Any], Page[tuple[Any, T]]]:
    import msgspec

    from oncue.client.call import Page

    def parse(answer: Any) -> Page[tuple[Any, T]]:
        page = call.parse(answer)
        return Page(tuple(zip(msgspec.json.decode(answer.body)[name], page.items, strict=True)), page.next_page_token)

    return parse


def _refused(no: OncueApiError, names: Mapping[str, str], *, as_json: bool) -> NoReturn:
    if as_json:
        problem = {"type": no.type, "title": no.title, "status": no.status, "detail": no.detail, "errors": no.errors}
        print_json({**problem, **no.members}, err=True)
        sys.exit(REFUSED)
    lines = [f"{names.get(one.path, one.path)}: {one.message}" if one.path else one.message for one in no.errors]
    if no.status == 401:
        lines.append("Set the key in ONCUE_API_KEY; a server on this machine keeps one in its data directory.")
    refuse(*([] if no.errors else [no.detail or no.title]), *lines)


def _unreachable(away: ServerUnreachable, *, as_json: bool) -> NoReturn:
    message = f"No server at {away.url}. Start one with `oncue up`, or name another with --url or ONCUE_URL."
    if away.sent:
        message = f"{away}. The request may or may not have been applied; check before you repeat it."
    refuse(message, as_json=as_json, title="Server Unreachable", code=UNREACHABLE)
