"""The engine in the administration: rows are read, two actions, one row of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import Door, EngineSettings, Job, Status
from tests.factories import change, make_host, make_job, make_node

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries
    from pytest_django.fixtures import SettingsWrapper

    from hosts.models import Host

pytestmark = pytest.mark.django_db
READ_ONLY = ("job", "lane", "workernode", "beatlease", "schedulefire")
JOBS = "/admin/jobs/job/"


def act(client: Client, action: str, *jobs: Job) -> str:
    data = {"action": action, "_selected_action": [job.pk for job in jobs]}
    return client.post(JOBS, data, follow=True).content.decode()


@pytest.mark.parametrize("model", READ_ONLY)
def test_rows_are_listed_and_cannot_be_added(admin_client: Client, model: str) -> None:
    assert admin_client.get(reverse(f"admin:jobs_{model}_changelist")).status_code == 200
    assert admin_client.get(reverse(f"admin:jobs_{model}_add")).status_code == 403


def test_a_job_can_be_neither_changed_nor_deleted(admin_client: Client, host: Host) -> None:
    job = make_job("work", host)
    shown = admin_client.get(reverse("admin:jobs_job_change", args=[job.pk])).content.decode()
    assert 'name="_save"' not in shown
    assert admin_client.post(reverse("admin:jobs_job_change", args=[job.pk]), {"kind": "x"}).status_code == 403
    assert admin_client.post(reverse("admin:jobs_job_delete", args=[job.pk]), {"post": "yes"}).status_code == 403
    assert Job.objects.get().kind == "work"


def test_the_list_offers_no_deletion(admin_client: Client, host: Host) -> None:
    make_job("work", host)
    assert "delete_selected" not in admin_client.get(JOBS).content.decode()


def test_cancel_answers_for_each_job(admin_client: Client, host: Host) -> None:
    job = make_job("work", host)
    over = change(make_job("look", host), status=Status.SUCCEEDED, finished_at=timezone.now())
    shown = act(admin_client, "cancel", job, over)
    assert f"Job {job.pk} is cancelled" in shown
    assert f"Job {over.pk} is over" in shown
    assert Job.objects.get(pk=job.pk).status == Status.CANCELLED


def test_run_again_names_the_new_job(admin_client: Client, host: Host) -> None:
    old = change(make_job("work", host), status=Status.FAILED, finished_at=timezone.now())
    shown = act(admin_client, "again", old)
    new = Job.objects.get(status=Status.PENDING)
    assert f"Job {old.pk} runs again as job {new.pk}." in shown
    assert new.door == Door.ADMIN


def test_a_refused_run_again_is_said(admin_client: Client, host: Host) -> None:
    old = change(make_job("work", host), status=Status.FAILED, finished_at=timezone.now())
    EngineSettings.objects.create(pk=1, held_at=timezone.now())
    assert "on hold" in act(admin_client, "again", old)
    assert Job.objects.count() == 1


def test_a_member_of_staff_without_the_right_has_no_actions(host: Host) -> None:
    job = make_job("work", host)
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_job"))
    client = Client()
    client.force_login(user)
    act(client, "cancel", job)
    assert Job.objects.get().status == Status.PENDING


def test_the_list_costs_the_same_with_many_rows(
    admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(30):
        make_job("work", make_host())
    with django_assert_max_num_queries(12):
        admin_client.get(JOBS)


def test_the_wait_can_be_edited(admin_client: Client) -> None:
    EngineSettings.objects.create(pk=1)
    address = reverse("admin:jobs_enginesettings_change", args=[1])
    admin_client.post(address, {"host_wait_sec": 600, "keep_job_days": 30})
    assert EngineSettings.load().host_wait_sec == 600


def test_a_wait_out_of_bounds_is_refused(admin_client: Client) -> None:
    EngineSettings.objects.create(pk=1)
    address = reverse("admin:jobs_enginesettings_change", args=[1])
    admin_client.post(address, {"host_wait_sec": 5, "keep_job_days": 30})
    assert EngineSettings.load().host_wait_sec == 1800


def test_the_environment_locks_the_wait_with_words(admin_client: Client, settings: SettingsWrapper) -> None:
    settings.PIHERDER_EXCLUSIVE_HOST_WAIT_SEC = 99
    EngineSettings.objects.create(pk=1)
    address = reverse("admin:jobs_enginesettings_change", args=[1])
    assert "PIHERDER_EXCLUSIVE_HOST_WAIT_SEC sets 99 s" in admin_client.get(address).content.decode()
    admin_client.post(address, {"host_wait_sec": 600, "keep_job_days": 30})
    assert EngineSettings.load().host_wait_sec == 1800


def test_there_is_one_row_of_settings(admin_client: Client) -> None:
    add = reverse("admin:jobs_enginesettings_add")
    admin_client.post(add, {"host_wait_sec": 700, "keep_job_days": 30})
    assert EngineSettings.load().host_wait_sec == 700
    assert admin_client.get(add).status_code == 403


def test_the_hold_is_shown_with_its_way_out(admin_client: Client) -> None:
    make_node()
    EngineSettings.objects.create(pk=1, held_at=timezone.now(), held_by="someone")
    shown = admin_client.get(reverse("admin:jobs_workernode_changelist")).content.decode()
    assert "The herd is on hold" in shown
    assert reverse("release") in shown
