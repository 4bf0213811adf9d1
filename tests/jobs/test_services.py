"""The two verbs of every door, and each refusal as one sentence that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import services, transitions
from jobs.models import Door, EngineSettings, Job, Status, WaitingOn
from jobs.services import Asker, Refused, request_cancel, request_job
from tests.factories import change, events, make_host, make_job, picked_up_by, running_on, waiting_on

if TYPE_CHECKING:
    from hosts.models import Host
    from jobs.node import Me

ANN = Asker(Door.PAGE, name="ann", client_ip="192.0.2.9")


def refusal(kind: str, host_id: int | None = None, params: dict[str, Any] | None = None) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        request_job(kind, host_id, params, asker=ANN)
    return caught.value.code, str(caught.value)


def test_a_request_remembers_who_asked(host: Host) -> None:
    answer = request_job("work", host.pk, {"tag": "a"}, asker=ANN)
    job = answer.job
    assert not answer.attached
    assert (job.requested_name, job.door, job.client_ip, job.params) == ("ann", "page", "192.0.2.9", {"tag": "a"})


def test_the_same_request_is_answered_with_the_same_job(host: Host) -> None:
    # case H26
    first = request_job("work", host.pk, asker=ANN).job
    answer = request_job("work", host.pk, asker=Asker(Door.API, name="bob"))
    assert (answer.job, answer.attached) == (first, True)
    assert events(first)[-1] == "attached"
    assert first.events.last().text == "bob asked for the same work"  # type: ignore[union-attr]  # just asserted


def test_a_missing_parameter_and_an_empty_one_are_the_same_request(host: Host) -> None:
    request_job("work", host.pk, asker=ANN)
    assert request_job("work", host.pk, {"tag": ""}, asker=ANN).attached


def test_an_unknown_kind_is_refused(db: None) -> None:
    code, text = refusal("nope")
    assert code == "invalid"
    assert text.startswith("There is no kind of work called nope: known are ")


def test_a_host_must_be_named(db: None) -> None:
    assert refusal("work") == ("invalid", "Work needs a host: name one.")


def test_a_host_must_not_be_named(host: Host) -> None:
    assert refusal("chore", host.pk) == ("invalid", "Chore takes no host.")


def test_a_host_that_is_not_there_is_refused(db: None) -> None:
    assert refusal("work", 999) == ("invalid", "There is no host with the id 999: it was removed or never added.")


def test_a_removed_host_is_refused(db: None) -> None:
    assert refusal("work", make_host(removed_at=timezone.now()).pk)[0] == "invalid"


def test_an_unknown_parameter_is_refused(host: Host) -> None:
    assert refusal("work", host.pk, {"x": 1}) == ("invalid", "Work has no parameter x: known are tag.")


def test_a_wrong_parameter_is_refused(host: Host) -> None:
    code, text = refusal("work", host.pk, {"tag": "x" * 11})
    assert (code, text[:5]) == ("invalid", "tag: ")


def test_a_kind_without_parameters_says_so(db: None) -> None:
    assert refusal("noop", params={"x": 1}) == ("invalid", "Do nothing takes no parameters.")


def test_a_held_herd_refuses(host: Host) -> None:
    services.hold("moving house", asker=ANN)
    assert refusal("work", host.pk) == ("held", "The herd is on hold (moving house): release it first.")
    assert EngineSettings.load().held_by == "ann"


def test_a_released_herd_takes_work_again(host: Host) -> None:
    make_job("work", host)
    services.hold("", asker=ANN)
    assert services.release() == 1
    assert not request_job("look", host.pk, asker=ANN).attached


def test_a_paused_host_refuses(db: None) -> None:
    paused = make_host(paused_at=timezone.now(), pause_reason="new disk")
    assert refusal("work", paused.pk) == ("paused", f"{paused.name} is paused: new disk.")


def test_a_busy_lane_names_the_job_in_the_way(host: Host) -> None:
    first = make_job("wide", host)
    with pytest.raises(Refused, match=f"job {first.pk}") as caught:
        request_job("work", host.pk, asker=ANN)
    assert (caught.value.code, caught.value.job) == ("busy", first)


def test_an_asker_without_a_name_is_its_door() -> None:
    assert Asker(Door.SCHEDULE).words == "schedule"


def test_an_asker_is_named_by_its_user(django_user_model: Any) -> None:
    assert Asker(Door.PAGE, user=django_user_model(username="eve")).words == "eve"


# --- cancel ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [WaitingOn.NOTHING, WaitingOn.HOST, WaitingOn.LOCK, WaitingOn.WORKER])
def test_a_job_that_waits_is_cancelled_at_once(host: Host, on: WaitingOn) -> None:
    job = waiting_on(on, make_job("work", host))
    assert request_cancel(job, asker=ANN) == f"Job {job.pk} is cancelled; it had not started."
    job.refresh_from_db()
    assert (job.status, job.lanes.count(), job.waiting_on) == (Status.CANCELLED, 0, "")


@pytest.mark.parametrize("state", [picked_up_by, running_on])
def test_a_job_that_a_worker_has_is_flagged(host: Host, me: Me, state: Any) -> None:
    job = state(me, make_job("work", host))
    assert "it ends when no process of it is left" in request_cancel(job, asker=ANN)
    job.refresh_from_db()
    assert (job.is_active, job.cancelled_by, job.lanes.count()) == (True, "ann", 1)
    assert job.cancel_requested_at


def test_a_second_cancel_changes_nothing(host: Host, me: Me) -> None:
    job = running_on(me, make_job("work", host))
    request_cancel(job, asker=ANN)
    request_cancel(job, asker=Asker(Door.API, name="bob"))
    job.refresh_from_db()
    assert (job.cancelled_by, events(job).count("cancel requested")) == ("ann", 1)


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
def test_a_job_that_is_over_cannot_be_cancelled(host: Host, status: Status) -> None:
    job = change(make_job("work", host), status=status, finished_at=timezone.now())
    with pytest.raises(Refused, match=rf"^Job {job.pk} is over \({status}\)") as caught:
        request_cancel(job, asker=ANN)
    assert caught.value.code == "over"


def test_a_job_put_back_at_that_moment_is_cancelled(host: Host, me: Me, monkeypatch: pytest.MonkeyPatch) -> None:
    job = picked_up_by(me, make_job("work", host))
    ask = transitions.ask_cancel

    def put_back_first(row: Job, by: str) -> None:
        change(job, attempt=None, boot=None)
        ask(row, by)

    monkeypatch.setattr(transitions, "ask_cancel", put_back_first)
    request_cancel(job, asker=ANN)
    job.refresh_from_db()
    assert job.status == Status.CANCELLED


def test_some_work_cannot_be_cancelled_once_it_runs(host: Host, me: Me) -> None:
    job = running_on(me, make_job("stiff", host))
    with pytest.raises(Refused, match="cannot be cancelled once it runs"):
        request_cancel(job, asker=ANN)


def test_a_kind_that_no_longer_exists_can_be_cancelled(host: Host, me: Me) -> None:
    job = change(running_on(me, make_job("work", host)), kind="gone")
    assert "being cancelled" in request_cancel(job, asker=ANN)


def test_run_again_asks_for_the_same(host: Host) -> None:
    old = make_job("work", host, {"tag": "a"})
    request_cancel(old, asker=ANN)
    new = services.run_again(old, asker=ANN).job
    assert (new.kind, new.host_id, new.params) == ("work", host.pk, {"tag": "a"})
    assert new != old


def test_active_jobs_come_oldest_first(host: Host) -> None:
    jobs = [make_job("work", host), make_job("look", host)]
    other = make_job("work", make_host())
    assert services.active_jobs() == [*jobs, other]
    assert services.active_jobs(host.pk) == jobs
