"""Where a worker finds secrets, for whom, and what it says if it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oncue import Secret
from oncue.domain.errors import SecretMissing
from oncue.domain.secret_refs import SecretAccess
from oncue.executors.environment import only_secrets
from oncue.executors.secrets import LARGEST, SecretSource

ALICE = SecretAccess("alice")
ADMIN = SecretAccess("root", shared=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    for name in ("alice", "bob", "shared"):
        (folder / name).mkdir(parents=True)
    (tmp_path / "outside").write_text("stolen-value")
    return folder


def source(folder: Path, **environment: str) -> SecretSource:
    return SecretSource(str(folder), environment)


def value(source: SecretSource, name: str, access: SecretAccess = ALICE) -> str:
    return source.resolve([name], access)[name]


@pytest.mark.parametrize(
    ("written", "read"),
    [("v\n", "v"), ("v\r\n", "v"), ("v\n\n", "v\n"), (" v ", " v "), ("a\nb\n", "a\nb"), ("\ufeffv\n", "v")],
)
def test_a_file_is_the_value_without_byte_order_mark_and_last_line_end(folder: Path, written: str, read: str) -> None:
    (folder / "alice" / "token").write_bytes(written.encode())
    assert value(source(folder), "token") == read


def test_own_then_shared_then_flat_then_environment(folder: Path) -> None:
    places = [folder / "alice" / "crm-token", folder / "shared" / "crm-token", folder / "crm-token"]
    found = source(folder, ONCUE_SECRET_CRM_TOKEN="of the environment")
    for place in places:
        place.write_text(str(place.parent.name))
    access = SecretAccess("alice", shared=True)
    for place in places:
        assert value(found, "crm-token", access) == place.parent.name
        place.unlink()
    assert value(found, "crm-token", access) == "of the environment"


@pytest.mark.parametrize("place", ["shared/token", "token", "bob/token"])
def test_what_is_not_for_a_user_is_missing(folder: Path, place: str) -> None:
    (folder / place).write_text("another-value")
    found = source(folder, ONCUE_SECRET_TOKEN="another-value")
    with pytest.raises(SecretMissing, match=r"no secret 'token'.*alice/token in secrets_dir.*secret_roles") as missing:
        value(found, "token")
    assert "another-value" not in str(missing.value)


def test_a_missing_secret_says_where_it_was_looked_for(folder: Path) -> None:
    with pytest.raises(SecretMissing) as missing:
        value(source(folder), "crm-token", ADMIN)
    said = "root/crm-token in secrets_dir, shared/crm-token in secrets_dir, crm-token in secrets_dir"
    assert f"no secret 'crm-token': looked for {said}, and ONCUE_SECRET_CRM_TOKEN" in str(missing.value)
    assert str(folder) not in str(missing.value)


@pytest.mark.parametrize("user_id", ["shared", "Shared", "..", ".", "", "a/b", "../secrets/bob", "böse", "a\n"])
def test_users_whose_ids_are_no_safe_names_have_no_folder(folder: Path, user_id: str) -> None:
    (folder / "shared" / "token").write_text("another-value")
    (folder / "bob" / "token").write_text("another-value")
    (folder / "token").write_text("another-value")
    with pytest.raises(SecretMissing, match="cannot be the name of a folder"):
        value(source(folder), "token", SecretAccess(user_id))


@pytest.mark.parametrize("name", ["../bob/token", "..", ".", "", "/etc/passwd", "..data", "a\n", "a/b", "x" * 101, "é"])
def test_names_that_are_no_names_are_never_looked_for(folder: Path, name: str) -> None:
    (folder / "bob" / "token").write_text("another-value")
    with pytest.raises(SecretMissing, match="no secret"):
        value(source(folder, ONCUE_SECRET_="x"), name, ADMIN)


def test_a_link_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder / "alice" / "token").symlink_to(folder.parent / "outside")
    (folder / "alice" / "other").symlink_to(folder / "bob" / "token")
    (folder / "bob" / "token").write_text("another-value")
    for name in ("token", "other"):
        with pytest.raises(SecretMissing, match="leads out of its folder"):
            value(source(folder), name)


def test_a_folder_that_leads_out_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "token").write_text("stolen-value")
    (folder / "carol").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SecretMissing, match="leads out of its folder"):
        value(source(folder), "token", SecretAccess("carol"))


def test_links_as_kubernetes_makes_them_are_followed(folder: Path) -> None:
    for version in ("first", "second"):
        (folder / "alice" / f"..{version}").mkdir()
        (folder / "alice" / f"..{version}" / "token").write_text(version)
    data = folder / "alice" / "..data"
    data.symlink_to("..first")
    (folder / "alice" / "token").symlink_to("..data/token")
    assert value(source(folder), "token") == "first"
    (folder / "alice" / "..tmp").symlink_to("..second")
    (folder / "alice" / "..tmp").rename(data)
    assert value(source(folder), "token") == "second"


def test_the_folder_itself_may_be_a_link(folder: Path) -> None:
    (folder / "alice" / "token").write_text("v")
    (folder.parent / "link").symlink_to(folder)
    assert value(source(folder.parent / "link"), "token") == "v"


def test_what_is_no_file_is_no_secret(folder: Path) -> None:
    os.mkfifo(folder / "alice" / "pipe")
    for name in ("pipe", "alice"):
        with pytest.raises(SecretMissing, match="no secret"):
            value(source(folder), name, SecretAccess("alice", shared=True))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        *((content, "is empty$") for content in (b"", b"\n", b"\r\n", b"\xef\xbb\xbf\n")),
        (b"x" * (LARGEST + 1), f"'token' has more than {LARGEST} bytes$"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_files_that_are_no_values_are_refused(folder: Path, content: bytes, why: str) -> None:
    (folder / "alice" / "token").write_bytes(content)
    with pytest.raises(SecretMissing, match=why):
        value(source(folder), "token")


def test_links_in_a_circle_are_no_secret(folder: Path) -> None:
    (folder / "alice" / "token").symlink_to("token")
    with pytest.raises((SecretMissing, OSError)):
        value(source(folder), "token")


def test_a_secret_does_not_show_its_value() -> None:
    token = Secret.of("the-value-itself")
    assert [repr(token), str(token), f"{token}", f"{token!r}", format(token)] == ["•••"] * 5
    assert "the-value" not in repr([token])
    assert token.reveal() == "the-value-itself"
    with pytest.raises(SecretMissing):
        Secret("name")


def test_the_variable_of_a_setting_is_no_secret() -> None:
    environment = {
        "ONCUE_SECRET_TOKEN": "t",
        "ONCUE_SECRET_ROLES": "admin,member",
        "ONCUE_SECRETS_DIR": "x",
        "HOME": "/",
    }

    assert only_secrets(environment) == {"ONCUE_SECRET_TOKEN": "t"}
