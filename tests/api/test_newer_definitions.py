"""An API that is older than who made a job: it shows and changes what it understands, and carries the rest along."""

from __future__ import annotations

from tests.api.conftest import Desk

from oncue.domain.instants import MINUTE
from oncue.engines.port import JobQuery

LATER = (("later", b'{"a":1.50}'),)


async def test_fields_that_are_not_known_survive_a_patch(desk: Desk) -> None:
    """Catches a definition that is written as far as it was understood."""
    uid = await desk.store.accounts.user("ada", desk.store.now)
    recurring = await desk.store.recurring(every=MINUTE, uid=uid, task="mark", unknown=LATER)
    one_shot = await desk.store.one_shot(MINUTE, uid=uid, task="mark", unknown=LATER)

    for job_id in (recurring, one_shot):
        for body in ({"timeout": "5s"}, {"name": "new", "retry": {"backoff": "3s"}}):
            answer = await desk.call("PATCH", f"/v1/jobs/{job_id}", body)
            assert answer.status_code == 200, answer.text
        for act in ("pause", "resume"):
            assert (await desk.call("POST", f"/v1/jobs/{job_id}/{act}", {})).status_code == 200

    jobs = {row.job.job_id: row.job for row in (await desk.store.lists.jobs(JobQuery())).items}
    for job_id in (recurring, one_shot):
        spec = jobs[job_id].spec
        assert (spec.timeout, spec.name, spec.retry.backoff, spec.unknown) == (5_000_000, "new", 3_000_000, LATER)


async def test_what_it_cannot_read_is_shown_and_not_changed(desk: Desk) -> None:
    uid = await desk.store.accounts.user("ada", desk.store.now)
    job_id = await desk.store.recurring(every=MINUTE, uid=uid, task="mark", unknown=(("retry", b'{"shape":"flat"}'),))

    assert (await desk.get(f"/jobs/{job_id}"))["task"] == "mark"
    assert [job["job_id"] for job in (await desk.get("/jobs"))["jobs"]] == [str(job_id)]
    answer = await desk.call("PATCH", f"/v1/jobs/{job_id}", {"timeout": "5s"})

    assert answer.status_code == 409
    assert "cannot read its retry" in answer.json()["detail"]
    assert (await desk.call("POST", f"/v1/jobs/{job_id}/pause", {})).status_code == 200
    assert (await desk.store.snapshot(job_id)).job.spec.not_understood == ("retry",)
