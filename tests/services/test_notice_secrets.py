"""Secrets that notices name: whose they are, and what is said of those that cannot be used."""

from pathlib import Path
from typing import Any

import pytest
from tests.services.notified import office_on
from tests.services.test_notifying import on

from oncue.domain.ids import KeyId
from oncue.domain.notify import SecretName
from oncue.engines.port import Key, Role
from oncue.executors.port import TaskFailed
from oncue.executors.secrets import SecretSource
from oncue.services.notice_secrets import NoticeSecrets
from oncue_conformance.store import Store

VALUE = "https://127.0.0.1/planted-5a7c-value"


def found(store: Store, folder: Path) -> NoticeSecrets:
    for user in ("ada", "shared"):
        (folder / user).mkdir()
    (folder / "ada" / "own").write_text("of ada\n")
    (folder / "shared" / "theirs").write_text("of all\n")
    return NoticeSecrets(
        store.accounts, store.clock, SecretSource(str(folder), {"ONCUE_SECRET_SMTP": "mail"}), ("admin",)
    )


async def add_key(store: Store, role: Role, **how: Any) -> None:
    user_id, key_id = "ada", KeyId(store.new_id())
    await store.accounts.add_key(Key(key_id, key_id.bytes * 2, store.uid, user_id, role, store.now, **how))


async def test_shared_ones_are_for_users_with_a_key_of_that_role(store: Store, tmp_path: Path) -> None:
    """Catches a member who reads what is for administrators, and an administrator who was one."""
    find = found(store, tmp_path)
    await add_key(store, Role.MEMBER)
    await add_key(store, Role.ADMIN, revoked_at=store.now)
    await add_key(store, Role.ADMIN, expires_at=store.now)
    assert await find("own", store.uid) == "of ada"
    assert await find("SMTP", None) == "mail"
    for name, uid in (("theirs", store.uid), ("SMTP", store.uid), ("own", store.stranger), ("../ada/own", store.uid)):
        with pytest.raises(TaskFailed, match="no secret"):
            await find(name, uid)

    await add_key(store, Role.ADMIN)
    assert await find("theirs", store.uid) == "of all"


async def test_what_is_said_of_a_failure_has_no_secret_in_it(store: Store, tmp_path: Path) -> None:
    async def find(name: str, uid: Any) -> str:
        return VALUE

    office = await office_on(store, tmp_path, find_secret=find)
    await store.one_shot(task="fail", max_retries=0, notify=on("dead", slack=SecretName("chat")))
    await office.turn()
    [notice] = await office.notices()
    said = (notice.attempts or b"").decode()
    assert ("•••" in said, "planted" in said) == (True, False)
