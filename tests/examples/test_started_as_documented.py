"""Pages are followed to the letter by somebody who has installed the wheel, in an empty folder without the checkout."""

from __future__ import annotations

import fcntl
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.processes.fleet import only_in_the_long_version
from tests.processes.loopback import Counting, Loopback
from tests.processes.reader import Machine, Page, Reader, made
from tests.test_docs import ROOT

from oncue.cli.main import COMMANDS
from oncue.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.kills

NOWHERE, CONTEXT, SECOND = "nothing elsewhere", "a current context elsewhere", "a second project on 8470"
BOTH = f"{SECOND}, {CONTEXT}"
PROD = """
current = "prod"

[contexts.prod]
url = "http://127.0.0.1:8600"
key = "oncue_prod"
"""
CHECKOUT = "it is for the checkout"
UP, UP_FOR_THE_SHOP = "oncue up --tasks examples/tasks.py", "oncue up --tasks examples/fastapi_shop.py"
SHOP = "uvicorn examples.fastapi_shop:app"
RUN, DEMO = "make run", "make demo"
PROGRAM = "python examples/client.py"
APPLY = "oncue apply examples/jobs.yaml --dry-run"
NAMED = re.compile(
    rf'\b(?:oncue (?:{"|".join({*COMMANDS} - {"import"})}) [^`"\n]+|(?:python|uvicorn) [^`"\n]+|make (?:run|demo))'
)
MAIN = "python -c 'import asyncio, tasks; asyncio.run(tasks.main())'"
CELERY = """
from types import SimpleNamespace as Some

beat = {"charges": {"task": "shop.charge", "schedule": 30.0, "kwargs": {"order": 7}}}
app = Some(
    conf=Some(timezone="Europe/Berlin", task_default_queue="celery", beat_schedule=beat),
    amqp=Some(router=Some(route=lambda _, task: {})),
    tasks={},
)
"""

README = Page(
    "README.md",
    code="program.py",
    once_saved={"python program.py": "Client()"},
    shows={
        "oncue jobs run greeting --wait": "Hello, you!",
        'curl -sS $URL/runs/$RUN -H "$AUTH"': '"result":"Hello, you!"',
    },
    own={"COMMAND": "jobs"},
    not_typed={"make test": CHECKOUT, "make docs": CHECKOUT, "oncue bench": "it measures for minutes"},
)
EXAMPLES = Page(
    "examples/README.md",
    own={"make demo": 'make demo ARGS="--hours 0.02 --port ${ONCUE_PORT:-8470}"'},
)
TUTORIAL = Page("docs/tutorial.md", own={"localhost/shop": "$PGHOST:$PGPORT/shop"})
RECIPES = Page(
    "docs/recipes.md",
    code="recipe.py",
    once_saved={"oncue up --tasks recipe.py": "tasks = Tasks()", "python recipe.py": "__main__"},
    before={"python recipe.py": ["oncue up --allow-commands"]},
)
INSTALL = Page(
    "docs/install.md",
    before={
        "export PIP_FIND_LINKS=~/wheels": ["mkdir ~/wheels && cp *.whl ~/wheels"],
        "oncue migrate --check": ["oncue up"],
    },
    shows={"oncue doctor": "oncue up"},
    not_typed={
        "pip install": "it is the name of a command",
        "pip wheel --no-deps -w ~/wheels path/to/checkout": CHECKOUT,
        "pip install 'path/to/checkout[postgres]'": CHECKOUT,
        "pip install 'oncue[postgres] @ git+ADDRESS'": "it needs a network",
        "pip install ./oncue-0.1.0.tar.gz": "building it needs an index",
        "pip install '.[postgres]'": CHECKOUT,
        "pip wheel --no-deps .": CHECKOUT,
        "make run": CHECKOUT,
        "pip download 'oncue[postgres]' -d wheels": "it needs an index",
    },
)
APSCHEDULER = Page(
    "docs/coming-from/apscheduler.md",
    has={"jobs.yaml": "jobs: [{key: hourly, task: report, schedule: every 1h}]"},
    code="tasks.py",
    before={"oncue jobs pause morning-report": [MAIN]},
)
CELERY_PAGE = Page(
    "docs/coming-from/celery.md",
    has={"shop/celery.py": CELERY, "shop/tasks.py": "from tasks import tasks"},
    code="tasks.py",
    before={
        "oncue runs show 84359e35": [MAIN],
        "oncue runs cancel 84359e35": ["oncue enqueue shop.charge order:=7 --in 1h"],
    },
)
CRON = Page(
    "docs/coming-from/cron.md",
    has={"system-crontab": "0 3 * * * root /usr/local/bin/backup.sh\n"},
    own={"/etc/crontab": "system-crontab"},
    before={"oncue runs logs backup-sh": ["oncue jobs run backup-sh"]},
    shows={"oncue jobs run backup-sh --wait": "not found"},  # there is no such script
)
WELCOME = (
    'curl http://127.0.0.1:8470/v1/jobs -H "Authorization: Bearer $ONCUE_API_KEY" -H "Content-Type: application/json" '
    """-H "Idempotency-Key: welcome-7" -d '{"task": "welcome", "payload": {"user": 7}}'"""
)
SIDEKIQ = Page(
    "docs/coming-from/sidekiq.md",
    has={"shop/tasks.py": "from tasks import tasks"},
    code="tasks.py",
    before={
        "oncue dead requeue 84359e35": [
            "oncue workers resume 84359e35",
            """oncue jobs create --task http --payload '{"url": "http://oncue.invalid"}' --max-retries 0""",
            "until oncue dead list -q | grep .; do :; done",
        ],
        WELCOME: ["export ONCUE_API_KEY=$(cat .oncue/admin.key)"],
    },
)
PAGES = [README, EXAMPLES, RECIPES, APSCHEDULER, CELERY_PAGE, CRON, SIDEKIQ]


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Machine:
    """One for all processes of xdist."""
    shared = tmp_path_factory.getbasetemp().parent if worker_id != "master" else tmp_path_factory.getbasetemp()
    found = Machine(shared / "machine")
    with (shared / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.venv.exists():
            found.install()
    return found


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with Loopback() as loopback:
        yield loopback


@pytest.fixture(params=[BOTH, *(pytest.param(one, marks=only_in_the_long_version) for one in (CONTEXT, SECOND))])
def elsewhere(request: pytest.FixtureRequest, loopback: Loopback) -> Iterator[str]:
    """Other servers than that of the folder. Whoever does what a page says sends them nothing."""
    where: str = request.param
    with ExitStack() as stack:
        ports = [port for port, what in ((8470, SECOND), (8600, CONTEXT)) if what in where]
        others = [stack.enter_context(Counting("http://127.0.0.1:9", loopback.listen(port))) for port in ports]
        yield where
    assert [other.visits for other in others] == [0] * len(others)


@pytest.fixture
def somebody(machine: Machine, loopback: Loopback, elsewhere: str, tmp_path: Path) -> Iterator[Reader]:
    """Somebody without oncue."""
    home = tmp_path / "home"
    environment = machine.environment(home)
    if SECOND in elsewhere:
        environment["ONCUE_PORT"] = "8485"
    if CONTEXT in elsewhere:
        config = home / ".config" / "oncue" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(PROD)
    reader = Reader(tmp_path / "folder", environment, loopback.enter)
    yield reader
    reader.leave()


@pytest.fixture
def installed(machine: Machine, somebody: Reader) -> Reader:
    """Somebody who has installed it."""
    (somebody.folder / ".venv").symlink_to(machine.venv)
    somebody.run(". .venv/bin/activate")
    return somebody


@pytest.fixture
def beside_the_examples(installed: Reader) -> Reader:
    shutil.copytree(ROOT / "examples", installed.folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return installed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_a_page_works_as_it_is_written(page: Page, beside_the_examples: Reader) -> None:
    beside_the_examples.follow(page)
    beside_the_examples.stop()


@pytest.mark.parametrize("elsewhere", [CONTEXT], indirect=True)
def test_the_first_page_works_on_the_usual_port(beside_the_examples: Reader) -> None:
    beside_the_examples.follow(README)
    beside_the_examples.stop()


def test_every_command_that_the_examples_name_is_typed_here() -> None:
    """Those of their README are, and docs/django.md starts the Django project: tests/processes/test_django.py."""
    files = [file for file in (ROOT / "examples").rglob("*") if file.suffix in (".py", ".yaml")]
    named = {command.rstrip(".") for file in files for command in NAMED.findall(file.read_text())}

    assert named == {UP, UP_FOR_THE_SHOP, SHOP, RUN, DEMO, PROGRAM, APPLY}
    assert made("make run").strip() == f".venv/bin/{UP}"


def test_the_program_and_the_file_of_jobs_work_with_the_tasks_of_all_examples(beside_the_examples: Reader) -> None:
    somebody = beside_the_examples
    somebody.start(f'{RUN} ARGS="--allow-commands"')

    somebody.type([PROGRAM], "succeeded: Hello, you!\nrefused: payload.nmae\ncancelled it again")
    for command in (APPLY, APPLY.removesuffix(" --dry-run")):
        somebody.type([command], "morning-greeting\nwebsite-check")
    somebody.type(["oncue jobs run morning-greeting --wait"], "Hello, everybody!")
    somebody.type(["""oncue enqueue command argv:='["echo", "cleaned"]' --wait"""], "cleaned")
    somebody.stop()


def test_the_shop_sends_its_receipts(beside_the_examples: Reader) -> None:
    somebody, shop = beside_the_examples, "http://127.0.0.1:8000"
    somebody.start(UP_FOR_THE_SHOP)
    somebody.start(SHOP)

    somebody.type(
        [f"RUN=$(curl -sS -X POST '{shop}/orders/7/receipt?to=you@example.org' | grep -oE '[0-9a-f-]{{36}}')"]
    )
    somebody.type([f"curl -sS {shop}/receipts/$RUN"], "receipt for order 7 sent to you@example.org")
    somebody.stop()


@pytest.mark.parametrize("elsewhere", [NOWHERE], indirect=True)  # no server runs in the folder
def test_it_is_installed_as_the_page_says(machine: Machine, somebody: Reader) -> None:
    shutil.copytree(machine.wheels, somebody.folder, dirs_exist_ok=True)
    somebody.follow(INSTALL)
    somebody.stop()


@pytest.mark.parametrize("elsewhere", [NOWHERE], indirect=True)  # no server runs in the folder
def test_the_suite_for_engines_and_the_bench_are_installed_with_it(installed: Reader) -> None:
    installed.type(["python -c 'from oncue.testing.conformance import store; import oncue_bench.parts'"])
    installed.stop()


def test_the_tutorial_works_as_it_is_written(
    somebody: Reader, loopback: Loopback, postgres_server: PrivatePostgres
) -> None:
    server = urlsplit(postgres_server.url)
    assert server.port is not None
    somebody.environment |= {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres"}
    with Counting(postgres_server.url, loopback.listen(server.port)) if loopback.enter else nullcontext():
        try:
            somebody.follow(TUTORIAL)
        finally:
            postgres_server.drop_database("shop")
    assert somebody.servers == {}, "the page ends with Ctrl-C"
