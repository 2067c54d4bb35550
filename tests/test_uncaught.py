"""Errors that nobody catches are lines of our log, without their messages, which may hold secrets."""

import json
import subprocess
import sys
import textwrap

import pytest

FAILS = textwrap.dedent(
    """
    import sys, threading
    from oncue import logs
    from oncue.settings import Settings

    class Torn:
        def __del__(self):
            raise ValueError("planted-value")

    def broken():
        raise ValueError("planted-value")

    logs.configure("worker", Settings(log_errors=sys.argv[1] == "errors"))
    for target in (broken, sys.exit):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    Torn()
    """
)


@pytest.mark.parametrize("shown", ["errors", "nothing"])
def test_what_ends_a_thread_or_cannot_be_caught_is_a_line_without_its_message(shown: str) -> None:
    command = [sys.executable, "-c", FAILS, shown]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr

    lines = [json.loads(line) for line in said.splitlines()]
    assert [(line["kind"], line["error_type"]) for line in lines] == [
        ("thread_failed", "ValueError"),
        ("error_ignored", "ValueError"),
    ]
    assert [line["trace"][0].split()[-1] for line in lines] == ["broken", "__del__"]
    assert [line.get("error") for line in lines] == [None if shown == "nothing" else "planted-value"] * 2
