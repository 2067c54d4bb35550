"""Prints and log lines go to the log of the run whose code they come from, and nowhere else by mistake."""

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from tests.executors.working import JOB, RUN, Remembered

from oncue.context import Context, RunInfo
from oncue.domain.instants import Instant
from oncue.executors import capture
from oncue.executors.capture import capturing


class Real:
    def __init__(self) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()


@contextmanager
def installed() -> Iterator[Real]:
    """Capturing over streams of the test's own, with a root logger that has no other handler."""
    streams = Real()
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    with redirect_stdout(streams.out), redirect_stderr(streams.err):
        undo = capture.install()
        try:
            yield streams
        finally:
            undo()
            left, root.handlers = root.handlers, before
        assert (sys.stdout, sys.stderr, left) == (streams.out, streams.err, [])


def on_streams(test: Callable[[Any, Real], None]) -> Callable[[Any], None]:
    """Inside the test itself: pytest puts its own streams and handlers in place after the fixtures."""

    def run(self: Any) -> None:
        with installed() as real:
            test(self, real)

    return run


def context(reports: Remembered) -> Context:
    return Context(RunInfo(RUN, JOB, "task", 1, Instant(0)), reports)


class TestStreams:
    @on_streams
    def test_a_print_lands_in_the_log_of_its_run(self, real: Real) -> None:
        reports = Remembered()
        with capturing(reports):
            print("hello")
            print("oh", file=sys.stderr)
            sys.stdout.writelines(["a", "b"])
        print("outside")

        assert reports.text == "hello\noh\nab"
        assert (real.out.getvalue(), real.err.getvalue()) == ("outside\n", "")

    @on_streams
    def test_a_thread_without_a_run_prints_as_ever(self, real: Real) -> None:
        reports = Remembered()
        with capturing(reports):
            thread = threading.Thread(target=print, args=["elsewhere"])
            thread.start()
            thread.join()

        assert (reports.text, real.out.getvalue()) == ("", "elsewhere\n")

    @on_streams
    def test_in_all_else_they_are_the_streams_they_stand_for(self, real: Real) -> None:
        print("hello")
        sys.stdout.flush()

        assert sys.stdout.getvalue() == "hello\n"  # type: ignore[attr-defined]
        assert not sys.stdout.isatty()

    @on_streams
    def test_a_log_that_prints_does_not_talk_to_itself(self, real: Real) -> None:
        class Chatty(Remembered):
            def write(self, text: str) -> None:
                print("writing")
                logging.getLogger("inside").warning("writing")
                super().write(text)

        reports = Chatty()
        with capturing(reports):
            sys.stdout.write("hello")

        assert reports.text == "hello"
        assert real.out.getvalue() == "writing\n"

    @on_streams
    def test_a_log_that_fails_does_not_fail_the_task(self, real: Real) -> None:
        class Broken(Remembered):
            def write(self, text: str) -> None:
                raise OSError("full")

        with capturing(Broken()):
            print("hello")
            logging.getLogger("user").error("oh")

        assert real.out.getvalue() == "hello\n"
        assert "oh" in real.err.getvalue()

    @on_streams
    def test_installed_twice_is_installed_once(self, real: Real) -> None:
        capture.install()
        reports = Remembered()
        with capturing(reports):
            logging.getLogger("user").warning("once")

        assert reports.text.count("once") == 1


class TestLogging:
    @on_streams
    def test_a_line_has_instant_level_and_message(self, real: Real) -> None:
        reports = Remembered()
        record = logging.LogRecord("user", logging.INFO, "file.py", 1, "%s apples", (3,), None)
        record.created = 1_893_456_000.0
        with capturing(reports):
            logging.getLogger("user").handle(record)

        assert reports.text == "2030-01-01T00:00:00.000Z INFO 3 apples\n"

    @on_streams
    def test_with_a_traceback_when_there_is_one(self, real: Real) -> None:
        reports = Remembered()
        with capturing(reports):
            try:
                raise LookupError("not here")
            except LookupError:
                logging.getLogger("user").exception("oh")

        first, *_, last = reports.text.splitlines()
        assert first.endswith(" ERROR oh")
        assert last == "LookupError: not here"

    @on_streams
    def test_the_runs_own_logger_names_its_run_wherever_it_is_called(self, real: Real) -> None:
        mine, others = Remembered(), Remembered()
        with capturing(others):
            context(mine).log.debug("detail")
        context(mine).log.info("outside")

        assert [line.split(" ", 1)[1] for line in mine.text.splitlines()] == ["DEBUG detail", "INFO outside"]
        assert others.text == real.err.getvalue() == ""

    @on_streams
    def test_without_a_run_it_goes_the_normal_way(self, real: Real) -> None:
        with redirect_stderr(io.StringIO()) as stderr:
            logging.getLogger("user").warning("attention")
            logging.getLogger("user").info("detail")

        assert stderr.getvalue() == "attention\n"

    @on_streams
    def test_handlers_of_the_users_own_see_everything_and_warnings_come_once(self, real: Real) -> None:
        seen = io.StringIO()
        own = logging.StreamHandler(seen)
        logging.getLogger().addHandler(own)
        reports = Remembered()
        logging.getLogger("user").warning("outside")
        with capturing(reports):
            logging.getLogger("user").warning("inside")
        logging.getLogger().removeHandler(own)

        assert seen.getvalue() == "outside\ninside\n"
        assert reports.text.endswith("WARNING inside\n")
        assert real.err.getvalue() == ""

    @on_streams
    def test_a_users_handler_on_a_captured_stream_does_not_double_the_lines(self, real: Real) -> None:
        own = logging.StreamHandler(sys.stderr)
        logging.getLogger().addHandler(own)
        reports = Remembered()
        with capturing(reports):
            logging.getLogger("user").warning("once")
            context(reports).log.info("mine")
        logging.getLogger().removeHandler(own)

        assert reports.text.count("once") == 1
        assert reports.text.count("mine") == 1

    @on_streams
    def test_a_message_that_cannot_be_formatted_is_told_and_not_the_tasks_problem(self, real: Real) -> None:
        reports = Remembered()
        with capturing(reports):
            logging.getLogger("user").warning("%d apples", "three")

        assert "%d apples" in reports.text
