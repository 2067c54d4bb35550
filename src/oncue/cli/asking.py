"""What the commands that ask a server share: their options, how they print answers, and how they say no."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from oncue.cli.printing import print_json, print_table
from oncue.cli.refusing import REFUSED, UNREACHABLE, refuse

if TYPE_CHECKING:  # the client costs a fifth of a second, which nobody should pay for a page of help
    from oncue.client import Client, OncueApiError, ServerUnreachable
    from oncue.client.call import Call, Page

T = TypeVar("T")

RETRIES = 2  # somebody is looking at the screen,
TIMEOUT = 30.0  # seconds; and can end it when an answer takes too long
LARGEST_PAGE = 1_000

URL = click.option("--url", envvar="ONCUE_URL", metavar="URL", help="The server. [default: http://127.0.0.1:8470]")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API has it.")
SERVER = (URL, JSON)
PAGES = (
    click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most so many."),
    click.option("--page-token", metavar="TOKEN", help="Go on where an earlier list ended."),
)


@contextmanager
def asking(
    url: str | None, *, as_json: bool = False, names: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Client]:
    """A client in this block; whatever it raises ends the command. `names` says what the user calls a field."""
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
    """Ask, and print what came: for people, or as JSON just as the API gave it."""
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
    """Ask for pages until there are `limit` items, and print them. As JSON it is one page, like those of the API."""
    found, token = _gathered(client, call, name, limit)
    if as_json:
        print_json({name: [one for one, _ in found], "next_page_token": token})
        return
    below = [] if token is None else [f"there are more: a larger --limit, or --page-token {token}"]
    words = name.replace("_", " ")
    print_table(
        f"{len(found)} {words.removesuffix('s') if len(found) == 1 else words}",
        columns,
        [row(item) for _, item in found],
        below,
    )


def _gathered(client: Client, call: Call[Page[T]], name: str, limit: int) -> tuple[list[tuple[Any, T]], str | None]:
    """Each item as it came and as a value. A filtered page may be short or empty while there is more."""
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
        lines.append("the key comes from ONCUE_API_KEY, or from the data directory of a server on this machine")
    refuse(*([] if no.errors else [no.detail or no.title]), *lines)


def _unreachable(away: ServerUnreachable, *, as_json: bool) -> NoReturn:
    message = f"no server at {away.url} — start one with `oncue up`, or name another with --url or ONCUE_URL"
    if away.sent:
        message = f"{away}; what you asked for may or may not have been done: look before you repeat it"
    refuse(message, as_json=as_json, title="Server Unreachable", code=UNREACHABLE)
