"""Every route of the installation, asked for by everyone, against the table in `routes.py`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth import SESSION_KEY
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, IntervalSchedule, PeriodicTask, SolarSchedule
from django_celery_results.models import GroupResult, TaskResult

from hosts.enrol import backup_schedule
from hosts.models import HostKey
from jobs.models import BeatLease, EngineSettings, ScheduleFire, WorkerNode
from piherder.accounts.models import SignIn
from piherder.accounts.roles import Role
from tests import people
from tests.factories import make_host, make_job, make_node
from tests.hosts.rows import know, make_generation, make_source
from tests.piherder.accounts.routes import ADMIN, ANYONE, OPERATOR, TABLE, VIEWER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from django.db.models import Model
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer
    from pytest_django.fixtures import Settings


pytestmark = pytest.mark.django_db
PEOPLE = {ANYONE: None, VIEWER: Role.VIEWER, OPERATOR: Role.OPERATOR, ADMIN: Role.ADMIN}
REFUSED = {403, 405}
LOGIN = re.compile(r"^(/admin)?/login/\?next=")
ODD = {"admin:view_on_site", "admin/(?P<url>.*)$"}  # nothing is found there


def routes(resolver: URLResolver | None = None, before: str = "", space: str = "") -> Iterator[tuple[str, str]]:
    """Name and pattern of every route; one without a name goes by its pattern."""
    for each in (resolver or get_resolver()).url_patterns:
        here = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from routes(each, here, f"{each.namespace}:" if each.namespace else space)
        elif isinstance(each, URLPattern):
            yield f"{space}{each.name}" if each.name else here, here


ROUTES = dict(routes())


def rows() -> dict[str, Model]:
    """One row of everything, by the beginning of the addresses that ask for it."""
    generation = make_generation(make_source(make_host("pi")))
    host = generation.source.host
    know(host, kernel="6.6")
    job = make_job("host_facts", host)
    boot = make_node().boot
    backup_schedule(host)
    schedule = PeriodicTask.objects.exclude(crontab=None).get()
    found: list[Model] = [
        *(job, *job.lanes.all(), WorkerNode.objects.get(boot=boot), schedule, schedule.crontab),
        *(generation, generation.root, generation.source, host, host.facts, host.credential),
        HostKey.objects.create(host=host, key_type="ssh-ed25519", public="AAAA", fingerprint="SHA256:y"),
        EngineSettings.objects.create(pk=1),
        BeatLease.objects.create(),
        ScheduleFire.objects.create(schedule=schedule, due_at=timezone.now()),
        IntervalSchedule.objects.create(every=1, period="days"),
        SolarSchedule.objects.create(event="sunrise", latitude=50, longitude=8),
        ClockedSchedule.objects.create(clocked_time=timezone.now()),
        TaskResult.objects.create(task_id="x"),
        GroupResult.objects.create(group_id="x"),
    ]
    guest = people.make_user("guest")
    people.browser(guest)
    admin = {f"admin/{row._meta.app_label}/{row._meta.model_name}/": row for row in found}
    return {
        **admin,
        "admin/auth/user/": guest,
        "admin/r/": job,
        "jobs/": job,
        "hosts/": generation,
        "accounts/": guest,
        "sessions/": SignIn.objects.get(),
    }


def address(pattern: str, found: dict[str, Model]) -> str:
    """An address of this pattern, with the row behind it."""
    row = next((row.pk for start, row in found.items() if pattern.startswith(start)), "")
    filled = re.sub(r"<host:name>", "pi", pattern.replace("^(?P<app_label>", "(?P<"))
    filled = re.sub(r"<path:content_type_id>", "1", filled)
    filled = re.sub(r"<[a-z:_]+>", str(row), filled)
    return "/" + re.sub(r"\(\?P<.*\)/?\$?$", "jobs/" if "|" in filled else "nowhere", filled)


def is_in(answer: Answer, name: str) -> bool:
    """Whether the view did its work; one that breaks gives no answer."""
    nothing_there = answer.status_code == 404
    if LOGIN.match(answer.headers.get("Location", "")) or answer.status_code in REFUSED:
        return False
    assert answer.status_code in {200, 301, 302, 404}, (name, answer.status_code)
    return not nothing_there or name in ODD


def test_every_route_is_in_the_table() -> None:
    assert set(ROUTES) == set(TABLE)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("who", PEOPLE, ids=["anyone", "viewer", "operator", "admin"])
def test_every_route_lets_in_whom_the_table_names(who: int, method: str, settings: Settings, tmp_path: Path) -> None:
    settings.PIHERDER_ARCHIVES = tmp_path
    found, wrong = rows(), []
    user = people.make_user("someone", PEOPLE[who]) if who else None
    client = Client()
    for name, pattern in ROUTES.items():
        if user and SESSION_KEY not in client.session:  # logged out by the one before
            client = people.browser(user)
        answer = client.generic(method, address(pattern, found))
        expected = who >= TABLE[name][method == "POST"]
        if is_in(answer, name) != expected:
            wrong.append(f"{name}: {answer.status_code} {answer.headers.get('Location', '')}")
    assert wrong == []


@pytest.mark.parametrize("role", [None, Role.ADMIN], ids=["anyone", "admin"])
def test_no_route_takes_a_form_from_another_site(role: Role | None) -> None:
    found = rows()
    client = people.signed_in("someone", role, strict=True) if role else Client(enforce_csrf_checks=True)
    took = [name for name, pattern in ROUTES.items() if client.post(address(pattern, found)).status_code != 403]
    assert took == []
