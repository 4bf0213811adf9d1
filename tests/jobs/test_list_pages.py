"""`jobs`, `job`, `run_job` and the pages about jobs: odd input, many hosts, every state, people without the right."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from django.utils import timezone

from hosts.models import Host
from jobs import hints
from jobs.filters import PAGE, JobFilter, job_page
from jobs.management.commands.jobs import progress
from jobs.management.show import end_line, exit_code, first_line, moment, sentence
from jobs.models import EngineSettings, Job, Status, WaitingOn
from tests import people
from tests.commands import herder
from tests.factories import change, make_host, make_job, make_node, running_on, waiting_on

if TYPE_CHECKING:
    from django.test import Client

    from tests.jobs.conftest import CutRedis

pytestmark = pytest.mark.django_db(transaction=True)
JOB_KEYS = {
    "id", "kind", "host", "status", "state", "waiting_on", "waiting_why", "params", "node", "attempt", "step",
    "progress", "summary", "result", "failure", "error", "log_lines", "duration_seconds", "requested_by", "door",
    "created_at", "published_at", "picked_up_at", "started_at", "finished_at", "cancel_requested_at", "waiting_since",
    "next_probe_at",
}  # fmt: skip


def ended(job: Job, status: Status = Status.SUCCEEDED, **fields: Any) -> Job:
    job.lanes.all().delete()
    now = timezone.now()
    return change(job, status=status, started_at=now - timedelta(seconds=4), finished_at=now, **fields)


@pytest.fixture
def worker(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker and a broker."""
    make_node(queues=["celery"])

    def take(job_id: int) -> None:
        Job.objects.filter(pk=job_id).update(published_at=timezone.now())

    monkeypatch.setattr(hints, "_publishers", [take])


# --- run_job on several hosts


def test_of_several_hosts_each_has_its_answer_and_the_worst_counts(worker: None) -> None:
    free, busy, paused, same = (make_host(name) for name in ("free", "busy", "paused", "same"))
    make_job("wide", busy)
    there = make_job("look", same, {"tag": ""})
    Host.objects.filter(pk=paused.pk).update(paused_at=timezone.now())
    ran = herder("run_job", "look", "--all-hosts", "--json")
    codes = {answer["host"]: answer["exit_code"] for answer in ran.document["jobs"]}
    assert codes == {"busy": 3, "free": 0, "paused": 1, "same": 3}
    assert (ran.code, ran.document["exit_code"]) == (1, 1)
    assert [answer["job"]["id"] for answer in ran.document["jobs"] if answer["attached"]] == [there.pk]
    assert free.jobs.count() == 1


def test_a_host_named_twice_is_one_host(host: Host, worker: None) -> None:
    ran = herder("run_job", "work", "--host", host.name, "--host", host.name)
    assert (ran.code, Job.objects.count()) == (0, 1)


def test_a_host_and_all_hosts_exclude_each_other(host: Host) -> None:
    ran = herder("run_job", "work", "--host", host.name, "--all-hosts")
    assert (ran.code, Job.objects.count()) == (2, 0)
    assert "not allowed with argument" in ran.err


def test_removed_hosts_are_not_among_all(worker: None) -> None:
    make_host("gone", removed_at=timezone.now())
    make_host("here")
    herder("run_job", "work", "--all-hosts")
    assert Job.objects.get().where == "here"


def test_work_without_a_host_takes_none(host: Host) -> None:
    ran = herder("run_job", "chore", "--host", host.name)
    assert (ran.code, ran.err) == (2, "Chore takes no host.\n")


@pytest.mark.parametrize("word", ["=x", "tag", "=", ""])
def test_a_parameter_needs_a_name_and_a_value(word: str) -> None:
    ran = herder("run_job", "chore", f"--param={word}")
    assert (ran.code, ran.err) == (2, f"--param takes name=value, not {word!r}.\n")


@pytest.mark.parametrize("value", ["", " ", "grün", "a=b", "-x", "🐑"])
def test_values_of_parameters_are_taken_as_they_are(value: str, worker: None) -> None:
    assert herder("run_job", "loose", f"--param=tag={value}").code == 0
    assert Job.objects.get().params == {"tag": value.strip()}


def test_waiting_names_every_job_that_still_waits(worker: None) -> None:
    for name in ("pi1", "pi2"):
        make_host(name, last_error_at=timezone.now())
    ran = herder("run_job", "work", "--all-hosts", "--timeout", "0")
    assert ran.code == 5
    assert ran.err.count("is still pending: waiting on host") == 2


# --- lists


def test_a_job_is_a_document_with_a_known_shape(host: Host) -> None:
    make_job("work", host)
    (found,) = herder("jobs", "--json").document
    assert set(found) == JOB_KEYS


def test_a_running_job_tells_where_and_how_far(host: Host) -> None:
    job = running_on(make_node("w1@pi"), make_job("work", host))
    change(job, progress_done=1, progress_total=3, progress_label="4 MB/s", step="copy")
    (found,) = herder("jobs", "--json").document
    assert (found["node"], found["progress"]["percent"], found["step"]) == ("w1@pi", 33, "copy")
    assert progress(job) == "33 %, 4 MB/s"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"progress_done": 0, "progress_total": 0}, ""),
        ({"progress_done": 5, "progress_total": 0}, ""),
        ({"progress_done": 200, "progress_total": 100}, "100 %"),
        ({"progress_done": -5, "progress_total": 100}, "0 %"),
        ({"step": "copy"}, "copy"),
        ({"waiting_why": "pi is off."}, "pi is off"),
    ],
)
def test_how_far_is_never_more_than_all_or_less_than_nothing(fields: dict[str, Any], words: str) -> None:
    assert progress(Job(**fields)) == words


@pytest.mark.parametrize(
    ("text", "first"), [("a", "a"), ("a\nb", "a …"), ("\n a\n\n", "a"), ("", ""), ("a\r\nb", "a\r …")]
)
def test_the_first_line_hints_at_more(text: str, first: str) -> None:
    assert first_line(text) == first


@pytest.mark.parametrize(
    ("status", "code"),
    [("pending", 5), ("running", 5), ("succeeded", 0), ("failed", 1), ("cancelled", 4)],
)
def test_every_state_has_its_code(status: str, code: int) -> None:
    assert exit_code(Job(status=status)) == code


def test_an_end_without_evidence_is_a_sentence_too() -> None:
    assert end_line(Job(pk=7, kind="chore", status=Status.SUCCEEDED)) == "job 7 (chore) succeeded."


def test_an_error_with_control_codes_moves_no_cursor(host: Host) -> None:
    ended(make_job("work", host), Status.FAILED, error="\x1b[31mred\x1b[0m \u202eevil", failure="error")
    out = herder("jobs").out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_an_error_longer_than_any_line_stays_one_line_in_a_pipe(host: Host) -> None:
    ended(make_job("work", host), Status.FAILED, error="x" * 5000, failure="error")
    assert "x" * 5000 in herder("jobs").out


def test_what_never_was_is_a_dash_and_sentences_begin_with_a_capital() -> None:
    assert (moment(None), sentence("job 7 Ends"), sentence("")) == ("–", "Job 7 Ends", "")


def test_one_job_that_waits_says_for_what_and_since(host: Host) -> None:
    job = waiting_on(WaitingOn.LOCK, make_job("copy", host), waiting_why="Job 3 copies.", next_probe_at=None)
    out = herder("job", str(job.pk)).out
    assert "waits for  Job 3 copies\n" in out
    assert "finished" not in out.split("when")[0]


def test_one_failed_job_shows_its_code_and_the_whole_error(host: Host) -> None:
    job = ended(make_job("work", host), Status.FAILED, error="It broke.\nTwice.", failure="no_space", log_lines=12)
    out = herder("job", str(job.pk)).out
    for words in ("reason code  no_space", "It broke. Twice.", f"12 lines (./herder job {job.pk} --log)"):
        assert words in out


# --- pages


@pytest.mark.parametrize(
    "query",
    [
        {"host": "-1"},
        {"host": "999999"},
        {"host": "x"},
        {"kind": "<script>"},
        {"status": "ACTIVE"},
        {"before": "0"},
        {"before": "-5"},
        {"before": str(2**63)},
        {"unknown": "x"},
    ],
)
def test_a_filter_that_is_none_filters_nothing(query: dict[str, str], host: Host) -> None:
    make_job("work", host)
    page = people.reader().get(reverse("jobs"), query)
    assert page.status_code == 200
    assert page.content.decode().count('class="what"') == 1
    assert "<script>" not in page.content.decode()


def wanted(**query: str) -> dict[str, str]:
    return JobFilter(query).wanted()  # type: ignore[arg-type]  # a plain dict does


def test_filters_are_kept_from_page_to_page() -> None:
    for _ in range(PAGE + 1):
        ended(make_job("loose"))
    shown = job_page(wanted(kind="loose", status="succeeded"))
    assert (len(shown.ended), shown.filtered) == (PAGE, True)
    assert shown.older == f"kind=loose&status=succeeded&before={shown.ended[-1].pk}"


def test_a_full_page_without_more_has_no_next_one() -> None:
    for _ in range(PAGE):
        ended(make_job("loose"))
    assert job_page(wanted()).older == ""


def test_active_jobs_stand_on_the_first_page_only(host: Host) -> None:
    make_job("work", host)
    assert job_page(wanted()).active
    assert not job_page(wanted(before="9999")).active


def post(client: Client, name: str, *args: object, **data: Any) -> str:
    return client.post(reverse(name, args=args), data, follow=True).content.decode()


def test_a_cancel_without_redis_works_by_page_too(host: Host, redis_away: CutRedis) -> None:
    job = make_job("work", host)
    assert "is cancelled; it had not started" in post(people.runner(), "cancel_job", job.pk)
    job.refresh_from_db()
    assert job.status == Status.CANCELLED


def test_a_running_job_is_flagged_by_page_and_by_whom(host: Host) -> None:
    job = running_on(make_node(), make_job("work", host))
    page = post(people.runner(), "cancel_job", job.pk)
    job.refresh_from_db()
    assert (job.status, job.cancelled_by) == (Status.RUNNING, "runner")
    assert "Cancelling" in page
    assert "disabled" in page


def test_what_cannot_be_cancelled_says_so(host: Host) -> None:
    job = running_on(make_node(), make_job("stiff", host))
    assert "cannot be cancelled once it runs" in post(people.runner(), "cancel_job", job.pk)
    assert herder("cancel_job", str(job.pk)).code == 2


def test_a_kind_that_is_gone_is_not_run_again(host: Host) -> None:
    job = ended(change(make_job("work", host), kind="vanished"))
    assert "There is no kind of work called vanished" in post(people.runner(), "job_again", job.pk)


@pytest.mark.parametrize("reason", ["x" * 201, "a\x00b"])
def test_a_reason_that_no_row_may_hold_holds_nothing(reason: str) -> None:
    post(people.runner(), "hold", reason=reason)
    assert not EngineSettings.load().held


@pytest.mark.parametrize("name", ["cancel_job", "job_again"])
def test_an_unknown_job_has_no_buttons(name: str, db: None) -> None:
    assert people.runner().post(reverse(name, args=[987654])).status_code == 404


def test_a_release_says_what_waits(host: Host) -> None:
    browser = people.runner()
    make_job("work", host)
    post(browser, "hold")
    assert "The herd is released; 1 waiting job." in post(browser, "release")
    Job.objects.all().delete()
    assert "no waiting jobs" in post(browser, "release")
