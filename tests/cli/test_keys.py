"""`oncue keys create`: for whoever may reach the store."""

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner

from oncue.cli.main import main
from oncue.domain.keys import key_hash, well_formed
from oncue.engines.open import open_engine
from oncue.engines.port import Key, Role
from oncue.settings import Settings


def create(data_dir: Path, *options: str) -> str:
    answer = CliRunner().invoke(main, ["keys", "create", "--data-dir", str(data_dir), *options])
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


def test_a_key_is_shown_once_and_works(tmp_path: Path) -> None:
    text = create(tmp_path, "--user", "alice", "--role", "member").split()[-1]

    key = stored(tmp_path, text)

    assert well_formed(text)
    assert key is not None
    assert (key.user_id, key.role) == ("alice", Role.MEMBER)


def test_as_json_for_scripts(tmp_path: Path) -> None:
    said = json.loads(create(tmp_path, "--json"))

    key = stored(tmp_path, said["key"])

    assert key is not None
    assert said == {"key_id": str(key.key_id), "user_id": "admin", "role": "admin", "key": said["key"]}


def test_a_store_that_is_away_is_told_and_not_a_traceback() -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"

    answer = CliRunner().invoke(main, ["keys", "create", "--engine", url])

    assert answer.exit_code == 1
    assert "start the server or correct" in answer.stderr
