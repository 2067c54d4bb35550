"""`oncue keys create`: for whoever may reach the store."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oncue.cli.main import main
from oncue.domain.instants import DAY
from oncue.domain.keys import key_hash, well_formed
from oncue.engines.open import open_engine
from oncue.engines.port import Key, Role
from oncue.settings import Settings

WHO = ("--user", "alice", "--role", "member")


def ask(*options: str) -> Result:
    return CliRunner().invoke(main, ["keys", "create", *options])


def create(data_dir: Path, *options: str) -> str:
    answer = ask("--data-dir", str(data_dir), "--init", *options)
    assert answer.exit_code == 0, answer.output
    return answer.output


def stored(data_dir: Path, text: str) -> Key | None:
    async def look() -> Key | None:
        engine = await open_engine(Settings(engine=f"sqlite:///{data_dir / 'oncue.db'}"))
        try:
            return await engine.accounts.key(key_hash(text))
        finally:
            await engine.close()

    return asyncio.run(look())


def test_a_key_is_shown_once_as_what_to_type_and_works(tmp_path: Path) -> None:
    said = create(tmp_path, *WHO, "--note", "her laptop", "--expires", "90d").splitlines()

    assert said[0] == "A member key of alice, shown only once:"
    assert said[-1].startswith("  export ONCUE_API_KEY=oc_")
    text = said[-1].partition("=")[2]
    key = stored(tmp_path, text)
    assert well_formed(text)
    assert key is not None
    assert (key.user_id, key.role, key.note) == ("alice", Role.MEMBER, "her laptop")
    assert key.expires_at == key.created_at + 90 * DAY


def test_as_json_for_scripts(tmp_path: Path) -> None:
    assert create(tmp_path, "--user", "root", "--role", "admin").startswith("An admin key of root,")
    said = json.loads(create(tmp_path, *WHO, "--json"))

    key = stored(tmp_path, said["key"])

    assert key is not None
    assert said == {"key_id": str(key.key_id), "user_id": "alice", "role": "member", "key": said["key"]}


def test_no_store_is_made_by_accident(tmp_path: Path) -> None:
    for where in (("--data-dir", str(tmp_path / "new")), ("--engine", f"sqlite:///{tmp_path}/typo.db")):
        answer = ask(*where, *WHO)
        assert (answer.exit_code, answer.stdout) == (1, "")
        assert "There is no database of oncue at sqlite:///" in answer.stderr
        assert "create it with --init" in answer.stderr
    assert list(tmp_path.iterdir()) == []

    create(tmp_path, *WHO)

    assert ask("--data-dir", str(tmp_path), *WHO).exit_code == 0, "it is there now"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--role", "admin"), 2, "Missing option '--user'"),
        (("--user", "alice"), 2, "Missing option '--role'"),
        ((*WHO, "--expires", "soon"), 1, "--expires: 'soon' is not a duration"),
        ((*WHO, "--note", "a\nb"), 1, "--note: has the invisible character U+000A"),
        (("--user", " ", "--role", "admin"), 1, "--user: is empty"),
    ],
)
def test_what_is_missing_or_wrong_is_told_by_its_option_and_nothing_is_made(
    tmp_path: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    answer = ask("--data-dir", str(tmp_path), "--init", *options)

    assert (answer.exit_code, answer.stdout) == (code, "")
    assert said in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_away_is_told_and_not_a_traceback() -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"

    answer = ask("--engine", url, *WHO)

    assert answer.exit_code == 1
    assert "start the server or correct" in answer.stderr


def test_no_key_is_created_that_would_not_be_shown(tmp_path: Path) -> None:
    refused = ask("--data-dir", str(tmp_path / "none"), "--init", *WHO, "-q")

    assert (refused.exit_code, "use --json" in refused.stderr) == (2, True)
    assert not (tmp_path / "none").exists()
