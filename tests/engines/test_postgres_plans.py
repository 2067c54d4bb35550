"""How PostgreSQL answers, with much in the tables: through the right index, whatever it believes about them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import Call, Place, postgres_of

from oncue.domain.ids import RunId, UserNumber, lane_key
from oncue.domain.instants import HOUR, MINUTE, Instant
from oncue.domain.job import JobStatus, Spec
from oncue.engines.port import JobQuery
from oncue.engines.postgres import lanes, lists, running
from oncue.engines.postgres import store as sessions
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements
from oncue_conformance.store import Store

place = outside.place

LARGE = "waiting running history agenda dead jobs job_versions job_tags job_keys repeats_0 repeats_1".split()
MAY_WALK = {
    "contents": {"jobs", "running", "waiting", "history", "dead"},  # all of a store, for a backup and its drill
    "sums": {"running", "waiting"},  # all of them, up to so many: once an hour
    "audited_orphans": {"running"},
    "cluster_state": {"running"},  # the same
    "count_running": {"running"},  # the same, of what runs
    "orphans": {"running"},  # whose worker is gone: there is nothing to find them by
    "holdings": {"running"},  # those of one worker, once in five seconds; an index by worker would cost every claim
    "list_live, cancelled": {"running"},  # those that are being stopped, by an index that has no others
    "list_live_named, cancelled": {"running"},
    **{f"list_by_name, {which}": {"running"} for which in ("active", "cancelled", "any", "open")},
    "search_endings": {"running", "waiting", "history", "dead", "jobs"},  # the newest, in the order of ids: see below
    "search_endings_of_user": {"running"},
    "count_open": {"running"},
    "count_open_of_all": {"running", "waiting"},  # so many of each, in the order of an index
    "count_ended_of_all": {"history", "dead"},
    **{f"list_live_of_all, {which}": {"running"} for which in ("cancelled",)},
    **{f"list_live_named_of_all, {which}": {"running"} for which in ("cancelled",)},
    **{f"list_by_name_of_all, {which}": {"running"} for which in ("active", "cancelled", "any", "open")},
    "count_open_jobs": {"running"},  # only for who is at a quota; an index by user would cost every claim
    "sum_open_payloads": {"running"},
    "users": {"running"},  # once for a page, which administrators ask for
    "empty_lanes": {"running", "waiting"},  # these belong to tending, once in a while
    "forget_empty_lanes": {"running", "waiting"},
    "forget_versions": {"job_versions"},
    "forget_tags": {"job_tags"},
    "forget_keys": {"job_keys"},
}
ROWS = 200_000
OPEN = {JobStatus.ACTIVE, JobStatus.PAUSED}
LOAD = f"""
insert into waiting (run_id, job_id, uid, class_id, due, wanted, trigger, job_version, spec)
  select id, id, 1, 1 + n % 3, $1 + n, $1 + n, 0, 1, ''
  from (select n, gen_random_uuid() as id from generate_series(1, {ROWS}) n) t;
insert into history
  (run_id, job_id, uid, class_id, state, wanted, trigger, job_version, token, failures, losses, ended_at, spec)
  select id, id, 1, 1 + n % 3, 2, $1 + n, 0, 1, 1, 0, 0, $1 + n, ''
  from (select n, gen_random_uuid() as id from generate_series(1, {ROWS}) n) t;
insert into jobs (job_id, uid, version, status, class_id, spec, created_at, updated_at)
  select gen_random_uuid(), 1, 1, 0, 1, '', $1, $1 from generate_series(1, {ROWS} / 20) n;
insert into agenda (job_id, uid, next_at, floor, planned) select job_id, 1, $1, $1, 0 from jobs;
insert into running
  (run_id, job_id, uid, class_id, due, wanted, trigger, job_version, token, failures, losses, worker_id, claimed_at)
  select gen_random_uuid(), job_id, 1, 1, $1, $1, 0, 1, 1, 0, 0, gen_random_uuid(), $1 from jobs limit {ROWS} / 100;
insert into dead select * from history limit {ROWS} / 100;
insert into job_tags select 1, 'tag', job_id from jobs;
insert into job_keys select 1, job_id::text, job_id from jobs;
insert into repeats_0 select 1, sha256(uuid_send(job_id)), '', job_id from jobs;
insert into repeats_1 select 1, sha256('x' || uuid_send(job_id)), '', job_id from jobs;
insert into job_versions select job_id, 0, '', null, $1 from jobs;
"""


def every_statement() -> dict[str, str]:
    """As the engine sends them, with all that it fills in."""
    found: dict[str, str] = {}
    for name, text in statements("oncue.engines.postgres").items():
        if "{alive}" in text:
            found |= {name: text.format(alive=running.ALIVE), f"{name} for the dead": text.format(alive="")}
        elif "{name}" in text:
            last = max(int(part[0]) for part in text.split("$")[1:])
            plain, named = {"name": "", "begins": ""}, {"name": f"and name = ${last + 1}", "begins": ""}
            found |= {name: text.format_map(plain), f"{name} by name": text.format_map(named)}
            if "{begins}" in text:
                found[f"{name} by prefix"] = text.format(name="", begins=lists.BEGINS)
        elif "{begins}" in text:
            found |= {name: text.format(begins=""), f"{name} by prefix": text.format(begins=lists.BEGINS)}
        elif "{held}" in text:
            some = {str(one): {one} for one in JobStatus} | {"any": set(JobStatus), "open": OPEN}
            found |= {f"{name}, {which}": text.format_map(lists.one_shots(one)) for which, one in some.items()}
        elif "{piece}" in text:
            found[name] = text.format(piece=name.removeprefix("archive_"))
        elif "{tag}" in text:
            found |= {name: text.format(tag=""), f"{name} by tag": text.format(tag=lists.TAGGED)}
        elif "{lane}" in text:
            found |= {f"{name} of lanes": text.format(**lanes.LANE), f"{name} of gates": text.format(**lanes.GATE)}
        else:
            found[name] = text
    return found


async def plan_of(connection: Connection, statement: str) -> dict[str, Any]:
    """The plan for whatever values, in a session of the engine."""
    await connection.execute("set local plan_cache_mode = force_generic_plan")
    prepared = await connection.prepare(statement)
    values = ", ".join(["null"] * len(prepared.get_parameters()))
    text = await connection.fetchval(
        f'explain (format json) execute "{prepared.get_name()}"' + (f"({values})" if values else "")
    )
    [found] = json.loads(text)
    plan: dict[str, Any] = {"Node Type": found} if found == "Utility Statement" else found["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def walks(plan: dict[str, Any], leading: dict[str, str]) -> set[str]:
    """The large tables of which a plan reads all: without an index, or the whole of one.

    It does that, too, where the condition is on other columns of an index than its first.
    """
    found = set()
    for node in nodes(plan):
        index = node.get("Index Name", "")
        if node["Node Type"] == "Seq Scan" or (index and leading[index] not in node.get("Index Cond", "")):
            what = index or node["Relation Name"]
            found |= {table for table in LARGE if what.startswith(f"{table}_") or what == table}
    return found


def indexes(plan: dict[str, Any], table: str) -> set[str]:
    """By which index it finds what it wants of a table."""
    return {name for node in nodes(plan) if (name := node.get("Index Name", "")).startswith(f"{table}_")}


def sorted_whole(plan: dict[str, Any], sorting: bool = False) -> set[str]:
    """The large tables of which all that fits is read and sorted, because no index has it in order up to a limit."""
    sorting = (sorting or "Sort" in plan["Node Type"]) and plan["Node Type"] != "Limit"
    found = {plan["Relation Name"]} & set(LARGE) if sorting and "Relation Name" in plan else set()
    return found.union(*(sorted_whole(part, sorting) for part in plan.get("Plans", ())))


def of_others(plans: dict[str, dict[str, Any]], leading: dict[str, str]) -> dict[str, set[str]]:
    """The indexes by which lists of a user's things would walk past those of others, in tables that are ever large."""
    lists_of_user = [
        name for name in plans if name.startswith(("list_live", "list_by", "list_tagged", "list_window", "list_ended"))
        or name in ("list_waiting", "list_history", "list_dead_of_user", "list_dead_of_group", "audit_of_user")
        or name == "search_endings_of_user"
    ]  # fmt: skip
    lists_of_user = [name for name in lists_of_user if "_of_all" not in name]
    assert len(lists_of_user) > 10
    found = {
        name: {node["Index Name"] for node in nodes(plans[name]) if "Index Name" in node and is_walk(node)}
        for name in lists_of_user
    }
    return {name: {index for index in used if leading[index] != "uid"} for name, used in found.items()}


def is_walk(node: dict[str, Any]) -> bool:
    """Not where one thing is found by its id; and what runs is little, however much there is to do."""
    condition = node.get("Index Cond", "")
    by_id = "(run_id = " in condition or "(job_id = " in condition
    return not by_id and node.get("Relation Name") != "running"


async def plans_of(store: Store) -> dict[str, dict[str, Any]]:
    async def explain(connection: Connection) -> dict[str, dict[str, Any]]:
        return {name: await plan_of(connection, text) for name, text in every_statement().items()}

    return await postgres_of(store)._store.write(explain)


async def leading_columns(place: Place) -> dict[str, str]:
    found = await place.session.fetch(
        "select i.indexrelid::regclass::text as index, a.attname from pg_index i"
        " join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]"
    )
    return {row["index"]: row["attname"] for row in found}


SEEN_WHEN_EMPTY = """
update pg_class c set reltuples = 1, relpages = greatest(1, pg_relation_size(c.oid) / 8192)
from pg_class t left join pg_index i on i.indrelid = t.oid
where t.relname in ('waiting', 'running', 'dead', 'repeats_0', 'repeats_1', 'history_{now}')
  and c.oid in (t.oid, i.indexrelid)
"""


async def test_whatever_the_planner_believes_no_statement_walks_through_a_large_table(place: Place) -> None:
    """Catches a missing index, and a statement that is only as good as the statistics of its tables.

    They may be none; or from when a queue had just been emptied and vacuumed, which makes it small until the next
    time, however much is in it by then; or fresh.
    """
    store = await place.store()
    for table in ("waiting", f"history_{store.now}", "jobs", "agenda", "running", "dead", "repeats_0", "repeats_1"):
        await place.session.execute(f"alter table {table} set (autovacuum_enabled = off)")
    await place.session.execute(LOAD.replace("$1", str(store.now)))
    leading = await leading_columns(place)
    for news in (None, SEEN_WHEN_EMPTY.format(now=store.now), "analyze"):
        await place.session.execute(news or "select")
        plans = await plans_of(store)

        found = {name: walks(plan, leading) - MAY_WALK.get(name, set()) for name, plan in plans.items()}
        assert {name: tables for name, tables in found.items() if tables} == {}, news
        assert {name for name, plan in plans.items() for node in nodes(plan) if "Bitmap" in node["Node Type"]} == set()
        assert sorted_whole(plans["peek_fair"]) == sorted_whole(plans["search_endings"]) == set()
        assert indexes(plans["peek_fair"], "waiting") == {"waiting_window"}
        assert indexes(plans["claim"], "waiting") == {"waiting_pkey"}
        assert indexes(plans["peek"], "waiting") == {"waiting_due"}
        assert indexes(plans["settle_final"], "running") == {"running_pkey"}
        assert indexes(plans["existing_jobs"], "waiting") == {"waiting_pkey"}
        assert (
            indexes(plans["counts_by_task"], "classes") == indexes(plans["open_classes"], "classes") == {"classes_pkey"}
        )
        assert indexes(plans["cluster_state"], "waiting") == {"waiting_in_line"}
        assert indexes(plans["oldest_due"], "waiting") == indexes(plans["count_due"], "waiting") == {"waiting_due"}
        assert indexes(plans["audited_cursors"], "agenda") == {"agenda_pkey"}
        assert all(
            node["Index Name"].endswith("_object_id_at_deed_id_idx")
            for node in nodes(plans["audit_of_object"])
            if "Index Name" in node
        )
        assert not sorted_whole(plans["audit_of_object"])
        assert "waiting_in_line" in indexes(plans["longest_held"], "waiting")
        assert not any(
            sorted_whole(plans[name]) for name in ("longest_held", "audited_cursors", "cluster_state", "count_due")
        )
        assert any("uid = ANY" in node.get("Index Cond", "") for node in nodes(plans["count_due_of_user"]))
        assert indexes(plans["plan_take"], "agenda") == {"agenda_next", "agenda_rules"}
        assert {name: found for name, found in of_others(plans, leading).items() if found} == {}, news


async def test_what_has_no_index_would_be_seen(place: Place) -> None:
    store = await place.store()
    leading = await leading_columns(place)

    async def explain(connection: Connection) -> list[set[str]]:
        columns = ("run_id", "checkpoint", "class_id", "wanted")
        return [walks(await plan_of(connection, f"select from waiting where {name} = $1"), leading) for name in columns]

    assert await postgres_of(store)._store.write(explain) == [set(), {"waiting"}, {"waiting"}, {"waiting"}]


# ------------------------------------------------------------------------------------------------------ what it reads

MANY = 100_000
CROWD = f"""
insert into waiting (run_id, job_id, uid, class_id, due, wanted, trigger, job_version, held, lane, gate)
  select gen_random_uuid(), gen_random_uuid(), 1, 1, {{since}} + n, {{since}} + n, ({{0}} & 4 = 0)::int, 1,
    {{0}}, {{1}}, {{2}}
  from generate_series(1, {MANY}) n
"""
READ = """
select sum(pg_stat_get_xact_tuples_returned(indexrelid)) + pg_stat_get_xact_tuples_returned('waiting'::regclass)
from pg_index where indrelid = 'waiting'::regclass
"""


class Reading:
    """Counts what transactions read of what waits: the rows, and the entries of every index."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.entries = 0
        real = sessions.Store._transaction

        async def transaction(of: sessions.Store, work: Any, pool: Any, **how: Any) -> Any:
            async def counted(connection: Connection) -> Any:
                before = await connection.fetchval(READ)
                answer = await work(connection)
                self.entries += await connection.fetchval(READ) - before
                return answer

            return await real(of, counted, pool, **how)

        async def fetch(of: sessions.Store, statement: str, *args: Any, hot: bool = False) -> Any:
            return await of.write(lambda connection: connection.fetch(statement, *args), hot=hot)

        patch.setattr(sessions.Store, "_transaction", transaction)
        patch.setattr(sessions.Store, "fetch", fetch)

    async def of(self, call: Call) -> int:
        self.entries = 0
        await call()
        return self.entries


async def what_it_costs(store: Store, reading: Reading, lane: dict[str, Any]) -> dict[str, int]:
    """What each deed reads where a few come and go, all of this lane. None of them stays."""
    worker = await store.worker()
    first, *others = await store.one_shots(4, apart=1, **lane)
    new = [await store.new_one_shot(MINUTE, **lane) for _ in range(2)]
    store.advance(MINUTE)
    costs = {
        "create": await reading.of(lambda: store.create(*new)),
        "stand": await reading.of(lambda: store.history.standing(None, others[2])),
        "cancel": await reading.of(lambda: store.running.cancel(None, others[2], store.now)),
        "look for overlaps": await reading.of(lambda: store.planning.overdue(10, store.now)),
    }
    run = await store.claim_one(worker, first)
    costs["hand back"] = await reading.of(lambda: store.hand_back(worker, run))
    run = await store.claim_one(worker, first)
    costs["settle"] = await reading.of(lambda: store.succeed(worker, run))
    for run_id in (*others[:2], *(RunId(one.job.job_id) for one in new)):
        await store.running.cancel(None, run_id, store.now)
    return costs


# What they have, as columns: what holds them, their lane, their gate. Then what those have who come after them.
CROWDS: dict[str, tuple[tuple[str, str, str], dict[str, Any]]] = {
    "of one group, with a key": (("3", "{group}", "{key}"), {"gate": ("k", 3)}),
    "of one group, paused": (("5", "{group}", "null"), {"group": "g"}),
    "with a key, paused": (("6", "null", "{key}"), {"gate": ("k", 3)}),
    "each of its own group": (("0", "n", "null"), {"group": "g"}),
    "each with its own key": (("0", "null", "n"), {"gate": ("k", 3)}),
}
A_FEW = 10  # more entries than without them, for a plan may be another


@pytest.mark.parametrize("crowd", CROWDS)
async def test_a_crowd_costs_others_nothing(place: Place, monkeypatch: pytest.MonkeyPatch, crowd: str) -> None:
    """Catches a lane or gate whose next member is looked for among all that wait for something else."""
    columns, lane = CROWDS[crowd]
    store = await place.store()
    keys = {"group": lane_key("group", store.uid, "g"), "key": lane_key("gate", store.uid, "k")}
    await place.session.execute("alter table waiting set (autovacuum_enabled = off)")
    reading = Reading(monkeypatch)
    alone = await what_it_costs(store, reading, lane)
    await place.session.execute(CROWD.format(*columns, since=store.now).format(**keys))
    store.advance(HOUR)

    for news in ("vacuum waiting", SEEN_WHEN_EMPTY.format(now=store.now), "analyze"):
        await place.session.execute(news)
        crowded = await what_it_costs(store, reading, lane)
        assert {
            audit_entry: cost for audit_entry, cost in crowded.items() if cost > alone[audit_entry] + A_FEW
        } == {}, news


# -------------------------------------------------------------------------------------------------- what a page reads

PAGES: dict[str, JobQuery] = {
    "no filter": JobQuery(),
    "one in three": JobQuery(task="t1"),
    "one user's": JobQuery(UserNumber(1)),
    "active": JobQuery(statuses=frozenset({JobStatus.ACTIVE})),
    "name": JobQuery(name="n"),
    "window": JobQuery(next_from=Instant(0)),
    "window and task": JobQuery(next_from=Instant(0), task="t1"),
}
NAMED = f"""
insert into waiting (run_id, job_id, uid, class_id, due, wanted, trigger, job_version, spec, name)
  select id, id, 1, 1 + n % 3, $1 + n, $1 + n, 0, 1, '{{{{"task":"t"}}}}', 'n'
  from (select n, gen_random_uuid() as id from generate_series(1, {ROWS}) n) t;
insert into jobs (job_id, uid, version, status, class_id, spec, created_at, updated_at, name)
  select gen_random_uuid(), 1, 1, 0, 1 + n % 3, '{{{{"task":"t"}}}}', $1, $1, 'n'
  from generate_series(1, {ROWS} / 20) n;
insert into agenda (job_id, uid, next_at, floor, planned) select job_id, 1, $1, $1, 0 from jobs;
"""


async def test_a_page_reads_little_more_than_it_shows(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a list that reads all it may look at, sorts that, and only then takes what it shows."""
    store = await place.store()
    await store.jobs.intern([Spec(f"t{i}").class_key for i in range(3)])
    await place.session.execute("alter table waiting set (autovacuum_enabled = off)")
    await place.session.execute(NAMED.format().replace("$1", str(store.now)))
    reading = Reading(monkeypatch)

    for news in ("select", SEEN_WHEN_EMPTY.format(now=store.now), "analyze"):
        await place.session.execute(news)
        costs = {}
        for name, query in PAGES.items():
            query = replace(query, limit=20)
            assert len((await store.lists.jobs(query)).items) == 20
            costs[name] = await reading.of(lambda query=query: store.lists.jobs(query))
        assert {name: cost for name, cost in costs.items() if cost > (900 if "window" in name else 400)} == {}, news


async def test_gauges_and_the_self_audit_read_no_more_than_they_count(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a number of the cluster that costs what waits, and a check that looks at all there is."""
    store = await place.store()
    await store.jobs.intern([Spec(f"t{i}").class_key for i in range(3)])
    await place.session.execute("alter table waiting set (autovacuum_enabled = off)")
    await place.session.execute(NAMED.format().replace("$1", str(store.now)))
    await place.session.execute(f"insert into counters select 1, n, 'created', {ROWS} / 3 from generate_series(1, 3) n")
    await place.session.execute(CROWD.format("1", "n % 100", "null", since=store.now))
    store.advance(HOUR)
    reading = Reading(monkeypatch)

    for news in ("select", SEEN_WHEN_EMPTY.format(now=store.now), "analyze"):
        await place.session.execute(news)
        found = await store.history.gauges(store.now, most_due=1_000)
        assert [(one.due, one.more) for one in found.queues] == [
            (1_002, True)
        ]  # one at least of each that was not counted
        assert found.held_oldest > 0
        costs = {
            "gauges": await reading.of(lambda: store.history.gauges(store.now, most_due=1_000)) - 1_000,
            "longest held": await reading.of(lambda: store.auditing.longest_held(store.now, 100)),
            "existing runs": await reading.of(lambda: store.auditing.existing_runs([RunId(store.new_id())], store.now)),
            "unexpired": await reading.of(lambda: store.auditing.unexpired(store.now)),
        }
        assert {name: cost for name, cost in costs.items() if cost > 500} == {}, news


async def test_the_oldest_transaction_of_others_is_told(place: Place) -> None:
    store = await place.store()
    assert (await store.history.gauges(store.now)).oldest_transaction is None

    async with place.session.transaction(isolation="repeatable_read"):
        await place.session.execute("select from waiting")
        first = (await store.history.gauges(store.now)).oldest_transaction
        second = (await store.history.gauges(store.now)).oldest_transaction

    assert first is not None
    assert second is not None
    assert 0 < first < second
