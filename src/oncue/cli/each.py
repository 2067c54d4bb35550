"""Act on several arguments one after the other: one that fails does not stop the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from oncue.cli.asking import say_refusal
from oncue.cli.output import Output
from oncue.cli.refusing import REFUSED

NONE: Mapping[str, str] = MappingProxyType({})


def on_each(
    given: Sequence[str], act: Callable[[str], object], output: Output, names: Mapping[str, str] = NONE
) -> None:
    """Call `act` with each text; if it refused one, the command ends with exit code 1, after all others.

    Each prints its own answer: as JSON one object after the other, as YAML one document after the other. An unreachable
    server, and the refusal of the only argument, are raised.
    """
    from oncue.client import ClientError, ServerUnreachable

    refused = False
    for text in given:
        try:
            act(text)
        except ServerUnreachable:
            raise
        except ClientError as no:
            if len(given) == 1:
                raise
            refused = True
            say_refusal(no, names, as_json=output.as_json, about=text)
    if refused:
        sys.exit(REFUSED)
