"""The archive: rows in are rows out, whatever breaks on the way, and nothing is dropped that is not in it."""

import json
from itertools import pairwise
from typing import Any

import pytest
from tests.services.archive_site import KEEP, Death, Killed, Site

from oncue.domain.archive import Table
from oncue.domain.errors import StorageUnavailable
from oncue.domain.instants import DAY, MILLISECOND, parse_instant
from oncue.engines.port import AuditEntry
from oncue.metrics.table import ARCHIVE_ERRORS, ARCHIVED_ROWS
from oncue.services import archiving
from oncue.services.archive_reading import COLUMNS, chain, files_of, sql_of, verify
from oncue.services.archiving import EVERY, check_file
from oncue.shapes.runs import Run


async def test_rows_in_are_rows_out_and_then_they_are_dropped(site: Site, logged: list[Any]) -> None:
    runs = await site.some_history()
    await site.drop()
    assert await site.in_store() == runs, "nothing is dropped that is not archived"

    await site.archive()

    assert await site.runs() == runs
    assert await site.in_store() == runs
    assert await site.drop() > 0
    assert await site.in_store() == []
    await site.archive_and_drop()
    assert sum(line["count"] for line in await site.lines(Table.LEDGER)) > 0
    assert [line["action"] for line in await site.lines(Table.AUDIT)] == ["a.b", "a.b"]
    assert (await site.store.audit.entries()).items == ()
    told = [line for line in logged if line["kind"] == "piece_archived"]
    assert sum(line["rows"] for line in told) == site.counted(ARCHIVED_ROWS) > len(runs)
    before = await site.progress()
    await site.archive()
    assert await site.progress() == before, "nothing is archived twice"
    assert (await verify(site.storage, before.head)).wrong == ()


async def test_a_line_is_the_run_as_the_api_shows_it(site: Site) -> None:
    await site.some_history(1)
    await site.archive()

    line = (await site.lines(Table.HISTORY))[0]

    assert (line["user_id"], line["status"], line["payload"]) == ("ada", "dead", {"n": 0})
    assert (line["error_type"], line["error_message"][:8], line["attempt_number"]) == ("Boom", "it broke", 1)
    assert line["attempts"][0]["outcome"] == "failed"
    told_elsewhere = {"modified_time", "progress", "log_url", "large", "degraded"}
    told_elsewhere |= {"job_name", "job_key", "queue", "priority", "trigger", "parent", "duration_ms"}
    told_elsewhere |= {"due_time", "executor_name"}
    assert set(Run.__struct_fields__) - told_elsewhere == set(line) - {"user_id", "payload", "objects"}
    for table in Table:
        assert {name for row in await site.lines(table) for name in row} == set(COLUMNS[table])


async def test_the_name_of_a_user_is_in_no_other_users_file(site: Site) -> None:
    await site.some_history()
    await site.archive()

    head = (await site.progress()).head
    for uid, other in ((site.store.uid, b'"bob"'), (site.store.stranger, b'"ada"')):
        found = [await check_file(site.storage, file) async for file in files_of(site.storage, head, uid)]
        assert found
        assert other not in b"".join(found)


async def test_a_file_has_the_rows_of_one_user_and_one_day(site: Site) -> None:
    await site.some_history()
    await site.archive()

    head = (await site.progress()).head
    async for file in files_of(site.storage, head, None):
        assert f"/user={file.user}/" in file.key
        for text in (await check_file(site.storage, file)).splitlines():
            row = json.loads(text)
            assert f"/dt={(row.get('end_time') or row['at'])[:10]}/" in file.key
            names = {site.store.uid: "ada", site.store.stranger: "bob", 0: None}
            assert row["user_id"] == names[file.user]


async def test_large_pieces_are_written_in_several_files_and_steps(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "PAGE", 2)
    monkeypatch.setattr(archiving, "MOST_RAW", 2_000)
    monkeypatch.setattr(archiving, "LARGEST_FILE", 1_000)
    runs = await site.some_history(5)

    await site.archive()

    assert await site.runs() == runs
    async for file in files_of(site.storage, (await site.progress()).head, None):
        assert file.raw <= 1_000
    assert await site.drop() > 0


async def test_the_manifests_are_a_chain(site: Site) -> None:
    await site.some_history()
    await site.archive()

    links = [link async for link in chain(site.storage, (await site.progress()).head)]

    assert len(links) > 2
    assert all(newer[1].number > older[1].number for newer, older in pairwise(links))
    assert links[-1][1].before is None
    assert all(older[0] == newer[1].before for newer, older in pairwise(links))
    for _, manifest in links:
        assert manifest.rows == sum(file.rows for file in manifest.files)
        assert manifest.from_time <= str(manifest.first) <= str(manifest.last) < manifest.until_time


async def test_a_byte_that_flips_before_it_was_read_back_keeps_the_piece_from_being_dropped(
    site: Site, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    runs, put = await site.some_history(), site.storage.put
    broken: list[str] = []

    async def flip(key: str, content: bytes) -> None:
        await put(key, bytes([content[0] ^ 1]) + content[1:])
        broken.append(key)

    monkeypatch.setattr(site.storage, "put", flip)
    await site.archive()
    await site.drop()

    assert await site.in_store() == runs
    assert any(broken[0] in line["why"] for line in logged if line["kind"] == "archive_failed")
    assert site.counted(ARCHIVE_ERRORS) > 0
    monkeypatch.setattr(site.storage, "put", put)
    await site.archive()
    assert await site.runs() == runs, "it was written anew, and what was wrong is gone"
    await site.drop()
    assert await site.in_store() == []


async def test_a_byte_that_flips_later_is_found_and_its_file_named(site: Site) -> None:
    await site.some_history()
    await site.archive()
    head = (await site.progress()).head
    files = [file async for file in files_of(site.storage, head, None)]
    path = site.folder / files[1].key
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    found = await verify(site.storage, head)

    assert [wrong.partition(":")[0] for wrong in found.wrong] == [files[1].key]
    links = [link async for link in chain(site.storage, head)]
    manifest = site.folder / links[1][0].key
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows": ', b'"rows": 1', 1))
    assert links[1][0].key in (await verify(site.storage, head)).wrong[-1]


async def test_while_the_archive_is_away_nothing_is_dropped(
    site: Site, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    runs = await site.some_history()

    async def away(*_: object) -> None:
        raise StorageUnavailable("storage is unavailable")

    with monkeypatch.context() as broken:
        for name in ("put", "get", "delete"):
            broken.setattr(site.storage, name, away)
        await site.archive()
        await site.drop()
        assert await site.in_store() == runs
        assert {line["kind"] for line in logged} == {"archive_failed"}
        assert site.counted(ARCHIVE_ERRORS) == 2
    await site.archive()
    await site.drop()

    assert await site.runs() == runs
    assert await site.in_store() == []


async def test_a_deed_of_a_later_day_that_was_written_first_waits_for_its_own_day(site: Site) -> None:
    store = site.store
    later, earlier = (AuditEntry(store.at(days * DAY), store.uid, None, f"a.{days}") for days in (3, 0))
    await store.audit.record([later])
    await store.audit.record([earlier])
    store.advance(KEEP + 2 * DAY)

    await site.archive()
    store.advance(4 * DAY)
    await site.drop()

    assert [one.action for one in (await store.audit.entries()).items] == ["a.3"]
    await site.archive_and_drop()
    assert [line["action"] for line in await site.lines(Table.AUDIT)] == ["a.0", "a.3"]
    assert (await store.audit.entries()).items == ()


async def test_a_run_that_comes_late_into_an_archived_piece_is_archived_too(site: Site) -> None:
    runs = await site.some_history()
    await site.archive()
    late = await site.store.one_shot(payload=b"1")
    site.store.advance(-KEEP - 3 * DAY)
    worker = await site.store.worker()
    site.store.advance(KEEP + 3 * DAY)
    claimed = await site.store.claim_one(worker, late)
    site.store.advance(-KEEP - 3 * DAY)  # a worker that was cut off for so long
    await site.store.succeed(worker, claimed)
    site.store.advance(KEEP + 3 * DAY)

    await site.drop()
    await site.archive_and_drop()

    assert await site.in_store() == []
    assert {*runs, str(late)} == set(await site.runs())


# Each day every third call; on PostgreSQL, where a round makes and drops a dozen tables, every fourth. All by `long`.
@pytest.mark.parametrize(
    ("engine_name", "step"),
    [
        ("sqlite", 3),
        pytest.param("sqlite", 1, marks=pytest.mark.long),
        pytest.param("postgres", 4, marks=pytest.mark.postgres),
        pytest.param("postgres", 1, marks=(pytest.mark.postgres, pytest.mark.long)),
    ],
)
@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.long), "after"])
async def test_a_process_may_be_killed_at_any_call(
    site: Site, step: int, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the call has happened, or when only its answer is lost: in turn at each call of all those it makes."""
    monkeypatch.setattr(archiving, "PAGE", 2)
    monkeypatch.setattr(archiving, "CHECKED_AT_ONCE", 1)
    death, killed = Death(site, moment, monkeypatch), True
    runs, last = await site.some_history(1, days=1), 1 - step
    while killed:
        last, killed = last + step, False
        death.after(last)
        for _ in range(2):
            try:
                await site.process().run_once()
                await site.drop()
            except Killed:
                killed = True
            site.store.advance(EVERY)
        death.after(0)
        await site.archive_and_drop(2)
        assert await site.in_store() == []
        runs += await site.some_history(1, days=1, recurring=False)

    await site.archive_and_drop()
    assert last > 20
    assert await site.runs() == sorted(runs)
    assert (await verify(site.storage, (await site.progress()).head)).wrong == ()


async def test_duckdb_reads_it(site: Site) -> None:
    duckdb = pytest.importorskip("duckdb")
    runs = await site.some_history()
    await site.archive()

    read = duckdb.connect()
    rows = read.sql(sql_of(site.settings.archive, Table.HISTORY))
    told = rows.select("run_id, user_id, status, epoch_ms(end_time), payload->>'n', attempts->0->>'outcome'").fetchall()
    wrote = [
        (
            line["run_id"],
            line["user_id"],
            line["status"],
            parse_instant(line["end_time"]) // MILLISECOND,
            str(line["payload"]["n"]),
            line["attempts"][0]["outcome"],
        )
        for line in await site.lines(Table.HISTORY)
    ]
    assert sorted(told) == sorted(wrote)
    assert sorted(row[0] for row in told) == runs
    for table in (Table.LEDGER, Table.AUDIT):
        [(n,)] = read.sql(f"select count(*) from ({sql_of(site.settings.archive, table)})").fetchall()
        assert n == len(await site.lines(table)) > 0
