"""The engine in the administration: rows are read, two actions, one row of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs.models import Door, EngineSettings, Job, Status
from tests import people
from tests.factories import change, make_host, make_job, make_node

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import DjangoAssertNumQueries
    from pytest_django.fixtures import Settings

    from hosts.models import Host

pytestmark = pytest.mark.django_db
READ_ONLY = ("job", "lane", "workernode", "beatlease", "schedulefire")
JOBS = "/admin/jobs/job/"


@pytest.fixture
def boss() -> Client:
    return people.boss()


def over(job: Job, status: Status) -> Job:
    job.lanes.all().delete()
    return change(job, status=status, finished_at=timezone.now())


def act(client: Client, action: str, *jobs: Job) -> str:
    data = {"action": action, "_selected_action": [job.pk for job in jobs]}
    return client.post(JOBS, data, follow=True).content.decode()


@pytest.mark.parametrize("model", READ_ONLY)
def test_rows_are_listed_and_cannot_be_added(boss: Client, model: str) -> None:
    assert boss.get(reverse(f"admin:jobs_{model}_changelist")).status_code == 200
    assert boss.get(reverse(f"admin:jobs_{model}_add")).status_code == 403


def test_a_job_can_be_neither_changed_nor_deleted(boss: Client, host: Host) -> None:
    job = make_job("work", host)
    shown = boss.get(reverse("admin:jobs_job_change", args=[job.pk])).content.decode()
    assert 'name="_save"' not in shown
    assert boss.post(reverse("admin:jobs_job_change", args=[job.pk]), {"kind": "x"}).status_code == 403
    assert boss.post(reverse("admin:jobs_job_delete", args=[job.pk]), {"post": "yes"}).status_code == 403
    assert Job.objects.get().kind == "work"


def test_the_list_offers_no_deletion(boss: Client, host: Host) -> None:
    make_job("work", host)
    assert "delete_selected" not in boss.get(JOBS).content.decode()


def test_cancel_answers_for_each_job(boss: Client, host: Host) -> None:
    job = make_job("work", host)
    ended = over(make_job("look", host), Status.SUCCEEDED)
    shown = act(boss, "cancel", job, ended)
    assert f"Job {job.pk} is cancelled" in shown
    assert f"Job {ended.pk} is over" in shown
    assert Job.objects.get(pk=job.pk).status == Status.CANCELLED


def test_run_again_names_the_new_job(boss: Client, host: Host) -> None:
    old = over(make_job("work", host), Status.FAILED)
    shown = act(boss, "again", old)
    new = Job.objects.get(status=Status.PENDING)
    assert f"Job {old.pk} runs again as job {new.pk}." in shown
    assert new.door == Door.ADMIN


def test_run_again_says_when_that_was_being_done_already(boss: Client, host: Host) -> None:
    old = over(make_job("work", host), Status.FAILED)
    there = make_job("work", host, {"tag": ""})
    assert f"Job {there.pk} was already doing this." in act(boss, "again", old)


def test_a_refused_run_again_is_said(boss: Client, host: Host) -> None:
    old = over(make_job("work", host), Status.FAILED)
    EngineSettings.objects.create(pk=1, held_at=timezone.now())
    assert "on hold" in act(boss, "again", old)
    assert Job.objects.count() == 1


def test_who_may_only_look_has_no_actions(host: Host) -> None:
    job = make_job("work", host)
    act(people.reader(), "cancel", job)
    assert Job.objects.get().status == Status.PENDING


def test_the_list_costs_the_same_with_many_rows(
    boss: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(30):
        make_job("work", make_host())
    with django_assert_max_num_queries(12):
        boss.get(JOBS)


def test_the_wait_can_be_edited(boss: Client) -> None:
    EngineSettings.objects.create(pk=1)
    address = reverse("admin:jobs_enginesettings_change", args=[1])
    boss.post(address, {"host_wait_sec": 600, "keep_job_days": 30})
    assert EngineSettings.load().host_wait_sec == 600


def test_a_wait_out_of_bounds_is_refused(boss: Client) -> None:
    EngineSettings.objects.create(pk=1)
    address = reverse("admin:jobs_enginesettings_change", args=[1])
    boss.post(address, {"host_wait_sec": 5, "keep_job_days": 30})
    assert EngineSettings.load().host_wait_sec == 1800


def test_the_environment_locks_the_wait_with_words(boss: Client, settings: Settings) -> None:
    settings.PIHERDER_EXCLUSIVE_HOST_WAIT_SEC = 99
    EngineSettings.objects.create(pk=1)
    address = reverse("admin:jobs_enginesettings_change", args=[1])
    assert "PIHERDER_EXCLUSIVE_HOST_WAIT_SEC sets 99 s" in boss.get(address).content.decode()
    boss.post(address, {"host_wait_sec": 600, "keep_job_days": 30})
    assert EngineSettings.load().host_wait_sec == 1800


def test_there_is_one_row_of_settings(boss: Client) -> None:
    add = reverse("admin:jobs_enginesettings_add")
    boss.post(add, {"host_wait_sec": 700, "keep_job_days": 30})
    assert EngineSettings.load().host_wait_sec == 700
    assert boss.get(add).status_code == 403


def test_the_hold_is_shown_with_its_way_out(boss: Client) -> None:
    make_node()
    EngineSettings.objects.create(pk=1, held_at=timezone.now(), held_by="someone")
    shown = boss.get(reverse("admin:jobs_workernode_changelist")).content.decode()
    assert "The herd is on hold" in shown
    assert reverse("release") in shown
