"""`jobs`, `job`, `cancel_job`, `hold` and `release`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from jobs import logs
from jobs.models import EngineSettings, Job, Status, WaitingOn
from tests.commands import herder, refused
from tests.factories import change, make_host, make_job, make_node, running_on, waiting_on

if TYPE_CHECKING:
    from hosts.models import Host

pytestmark = pytest.mark.django_db


def ended(job: Job, **fields: object) -> Job:
    """The job as it succeeded a while ago."""
    now = timezone.now()
    times = {"started_at": now - timedelta(seconds=75), "finished_at": now}
    return change(job, **{"status": Status.SUCCEEDED, "summary": "Done.", **times, **fields})


def test_an_empty_list_says_so() -> None:
    assert herder("jobs").out == "There are no jobs yet.\n"
    assert herder("jobs", "--active").out == "No job is active.\n"


def test_a_filter_that_nothing_passes_says_so(host: Host) -> None:
    make_job("work", host)
    for words in (["--kind", "look"], ["--host", make_host().name], ["--kind", "work", "--host", make_host().name]):
        assert herder("jobs", *words).out == "No job fits.\n"


def test_a_kind_that_never_was_is_wrong_use(host: Host) -> None:
    ran = herder("jobs", "--kind", "bakcup")
    assert (ran.code, ran.err.split(":")[0]) == (2, "There is no kind of work called bakcup")
    change(make_job("work", host), kind="retired")
    assert "retired" in herder("jobs", "--kind", "retired").out


def test_jobs_are_listed_newest_first_in_columns(host: Host) -> None:
    first = ended(make_job("work", host))
    second = make_job("chore")
    rows = herder("jobs").rows
    assert rows[0] == ["job", "kind", "host", "state", "requested", "took"]
    assert [row[0] for row in rows[1:]] == [str(second.pk), str(first.pk)]
    assert rows[2][-6:] == ["now", "1", "min", "15", "s", "Done."]


def test_a_list_shows_how_far_a_job_is(host: Host) -> None:
    job = running_on(make_node(), make_job("work", host))
    change(job, progress_done=1, progress_total=4, progress_label="copying")
    assert herder("jobs").out.rstrip().endswith("25 %, copying")


def test_a_list_shows_what_a_job_waits_for(host: Host) -> None:
    soon = timezone.now() + timedelta(seconds=21)
    waiting_on(WaitingOn.HOST, make_job("work", host), waiting_why="pi is off.", next_probe_at=soon)
    assert "waiting on host" in herder("jobs").out
    assert herder("jobs").out.rstrip().endswith("pi is off, next look in 20 s")


def test_a_long_evidence_is_not_cut_where_no_terminal_is(host: Host) -> None:
    ended(make_job("work", host), summary="x" * 400)
    assert "x" * 400 in herder("jobs").out


def test_only_the_first_line_of_an_error_is_listed(host: Host) -> None:
    ended(make_job("work", host), status=Status.FAILED, error="First.\nSecond.", failure="error")
    assert herder("jobs").out.rstrip().endswith("First. …")


@pytest.mark.parametrize(
    ("words", "kinds"),
    [(["--active"], ["chore", "look"]), (["--kind", "work"], ["work"]), (["--host", "pi1"], ["look", "work"]),
     (["--limit", "1"], ["chore"]), (["--limit", "0"], ["chore", "look", "work"])],
)  # fmt: skip
def test_filters(words: list[str], kinds: list[str]) -> None:
    host = make_host("pi1")
    ended(make_job("work", host))
    make_job("look", host)
    make_job("chore")
    assert [job["kind"] for job in herder("jobs", "--json", *words).document] == kinds


def test_jobs_of_a_removed_host_are_still_found(host: Host) -> None:
    make_job("work", host)
    type(host).objects.filter(pk=host.pk).update(removed_at=timezone.now())
    assert len(herder("jobs", "--json", "--host", host.name).document) == 1


def test_an_unknown_host_is_wrong_use(host: Host) -> None:
    assert refused("jobs", "--host", "nobody") == f"There is no host called nobody: known are {host.name}."


def test_one_job_shows_evidence_times_and_transitions(host: Host) -> None:
    job = ended(make_job("work", host, user_name="ann"), node="w1@pi")
    out = herder("job", str(job.pk)).out
    for words in (f"work on {host.name}", "succeeded", "Done.", "by ann", "1 min 15 s", "w1@pi", "requested  by ann"):
        assert words in out


def test_one_job_as_json_holds_its_events(host: Host) -> None:
    job = make_job("work", host)
    document = herder("job", str(job.pk), "--json").document
    assert (document["id"], document["status"], document["host"]) == (job.pk, "pending", host.name)
    assert [event["name"] for event in document["events"]] == ["requested"]
    assert "log" not in document


@pytest.mark.parametrize("packed", [False, True])
def test_the_whole_log_is_printed_while_it_runs_and_afterwards(host: Host, packed: bool) -> None:
    job = make_job("work", host)
    log = logs.JobLog(job.pk)
    for number in range(1200):
        log.write(f"line {number}")
    log.take()
    log.close()
    if packed:
        logs.compress(job.pk)
    lines = herder("job", str(job.pk), "--log").out.splitlines()
    assert (len(lines), lines[700].split(" ", 1)[1]) == (1200, "line 700")
    assert len(herder("job", str(job.pk), "--log", "--json").document["log"]) == 1200


def test_a_log_that_is_not_there_is_said(host: Host) -> None:
    job = make_job("work", host)
    ran = herder("job", str(job.pk), "--log")
    assert (ran.out, ran.err) == ("", f"Job {job.pk} (work on {host.name}) has no stored log.\n")


@pytest.mark.parametrize("name", ["job", "cancel_job"])
def test_an_unknown_job_is_wrong_use(name: str) -> None:
    assert refused(name, "77") == "There is no job 77: ./herder jobs lists them."


def test_a_pending_job_is_cancelled_at_once(host: Host) -> None:
    job = make_job("work", host)
    ran = herder("cancel_job", str(job.pk))
    assert (ran.code, ran.out) == (0, f"Job {job.pk} is cancelled; it had not started.\n")
    assert Job.objects.get().status == Status.CANCELLED


def test_a_running_job_is_flagged(host: Host) -> None:
    job = running_on(make_node(), make_job("work", host))
    assert "is being cancelled" in herder("cancel_job", str(job.pk)).out
    assert Job.objects.get().cancelled_by == "root"


def test_a_job_that_is_over_cannot_be_cancelled(host: Host) -> None:
    job = ended(make_job("work", host))
    ran = herder("cancel_job", str(job.pk))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"Job {job.pk} is over (succeeded); there is nothing to cancel.\n"


def test_hold_and_release_say_what_they_meet(host: Host) -> None:
    make_job("work", host)
    ran = herder("hold", "--reason", "moving house")
    assert ran.out.endswith("until ./herder release. 1 pending job waits for the release.\n")
    assert EngineSettings.load().hold_reason == "moving house"
    assert herder("release").out == "The herd is released: schedules fire again. 1 job was waiting.\n"
    assert not EngineSettings.load().held


def test_hold_tells_running_jobs_from_those_that_wait(host: Host) -> None:
    for kind in ("work", "copy"):
        running_on(make_node(f"{kind}@pi"), make_job(kind, host))
    assert herder("hold").out.endswith("until ./herder release. 2 running jobs end by themselves.\n")
    make_job("look", host)
    make_job("chore")
    assert herder("hold").out.endswith(" 2 running jobs end by themselves. 2 pending jobs wait for the release.\n")
