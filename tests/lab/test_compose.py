"""PiHerder in containers on a real engine: a backup through it, and each part of it killed, stopped and renewed."""

from __future__ import annotations

import http.cookiejar
import re
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.base import comes
from tests.lab.composed import PLACE, Composed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab.host import LabHost

ALL = ("web", "worker", "beat", "postgres", "redis")
HOLD = "/root/hold"
# Bounded, so that nothing waits for ever where a test fails; a file, so that a test decides when the job goes on.
HOOK = f"for _ in $(seq 600); do test -e {HOLD} || exit 0; sleep 0.2; done"


@pytest.fixture(scope="module")
def target(make_host: Callable[..., LabHost]) -> Iterator[LabHost]:
    """A host to be backed up."""
    host = make_host("target")
    host.run("mkdir -p /srv/files && echo precious > /srv/files/one")
    yield host
    host.remove()


@pytest.fixture(scope="module")
def stack(make_host: Callable[..., LabHost], target: LabHost) -> Iterator[Composed]:
    """PiHerder, built, up and healthy, with one host whose backups wait until the hold file is gone."""
    found = Composed(make_host("dock", docker=True))
    found.prepare()
    found.compose("build", "web", seconds=600)
    found.up()
    words = ("--address", target.address, "--generate-key", "--trust-first-key", "--source", "/srv/files")
    said = found.herder("add_host", "target", *words, "--no-schedule").stdout
    target.add_key(said.strip().splitlines()[-1])
    found.herder("edit_host", "target", "--before-hook", HOOK)
    found.herder("herder_backup", "--wait")
    yield found
    found.compose("down", "-v", seconds=300)
    found.host.remove()


@pytest.fixture
def well(stack: Composed, target: LabHost) -> Iterator[Composed]:
    """The stack, healthy before the test; afterwards nothing is held."""
    stack.wait_healthy(*ALL)
    yield stack
    target.run(f"rm -f {HOLD}")


def backed_up(stack: Composed) -> dict[str, Any]:
    """The job of a backup that was run to its end now."""
    (only,) = stack.rows("run_job", "backup", "--host", "target", "--wait", "--timeout", "100")["jobs"]
    job: dict[str, Any] = only["job"]
    return job


def held_backup(stack: Composed, target: LabHost) -> int:
    """A backup that is at work and stays so until the hold file goes."""
    target.run(f"touch {HOLD}")
    number = stack.request("backup", "--host", "target")
    stack.wait_job(number, "running")
    return number


def test_the_example_settings_and_a_password_are_all_that_compose_needs(stack: Composed) -> None:
    config = "docker compose -f compose.yml --profile nmap --env-file .env.example config -q"
    lacking = stack.host.run(f"cd {PLACE}/docker && {config}", check=False)
    assert "POSTGRES_PASSWORD is missing a value: set it in docker/.env" in lacking.stderr
    stack.host.run(f"cd {PLACE}/docker && POSTGRES_PASSWORD=x {config}")


def test_the_first_login(well: Composed) -> None:
    said = well.herder("first_start", "--admin").stdout
    password = re.search(r"User admin, password (\S+)", said)
    assert password, said
    site = f"http://{well.host.address}:8000"
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    form = browser.open(f"{site}/login/", timeout=30).read().decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token
    sent = {"csrfmiddlewaretoken": token[1], "username": "admin", "password": password[1]}
    page = browser.open(f"{site}/login/", urllib.parse.urlencode(sent).encode(), timeout=30)
    assert page.url == f"{site}/jobs/"
    assert "Log out" in page.read().decode()


def test_a_backup_becomes_a_good_generation_in_the_volume(well: Composed) -> None:
    assert backed_up(well)["status"] == "succeeded"
    newest = well.rows("generations", "target")[0]
    assert newest["status"] == "good"
    seen = well.compose("exec", "-T", "worker", "cat", f"{newest['path']}/tree/one").stdout
    assert seen == "precious\n"


def test_the_herders_own_backup_lies_in_its_volume(well: Composed) -> None:
    assert well.herder("herder_backup", "--wait").code == 0
    kept = well.compose("exec", "-T", "worker", "ls", "/herder-backups").stdout.split()
    assert len(kept) >= 2


def test_no_container_is_root_or_can_write_its_system(well: Composed) -> None:
    for service in ALL:
        assert well.compose("exec", "-T", service, "id", "-u").stdout.strip() != "0"
        assert well.compose("exec", "-T", service, "touch", "/usr/x", check=False).code != 0


def test_the_web_is_recycled_under_a_running_job(well: Composed, target: LabHost) -> None:
    number = held_backup(well, target)
    before = {each["ID"] for each in well.containers("web")}
    well.compose("up", "-d", "--force-recreate", "--no-deps", "web")
    well.wait_healthy("web")
    assert before.isdisjoint(each["ID"] for each in well.containers("web"))
    assert well.job(number)["status"] == "running"
    target.run(f"rm {HOLD}")
    assert well.wait_job(number, "succeeded", "failed")["status"] == "succeeded"


def test_one_of_three_workers_is_killed_in_mid_job(well: Composed, target: LabHost) -> None:
    well.up("--scale", "worker=3", "--no-recreate")
    assert len(well.containers("worker")) == 3
    number = held_backup(well, target)
    node = well.job(number)["node"]
    well.kill(node.removeprefix("celery@"))
    ended = well.wait_job(number, "failed", "succeeded", seconds=60)
    assert (ended["status"], ended["failure"]) == ("failed", "worker_lost")
    assert ended["node"] == node
    assert node in ended["error"]
    target.run(f"rm {HOLD}")
    assert backed_up(well)["status"] == "succeeded"
    well.wait_healthy("worker")
    assert len(well.containers("worker")) == 3


def test_a_worker_that_is_stopped_ends_its_job_in_words_within_the_grace(well: Composed, target: LabHost) -> None:
    number = held_backup(well, target)
    well.compose("stop", "worker", seconds=150)
    codes = well.host.run("docker ps -aq --filter name=piherder-worker | xargs docker inspect -f '{{.State.ExitCode}}'")
    assert set(codes.stdout.split()) == {"0"}
    assert well.job(number)["failure"] == "worker_stopped"
    well.compose("start", "worker")
    target.run(f"rm {HOLD}")
    assert backed_up(well)["status"] == "succeeded"


@pytest.mark.parametrize("service", ALL)
def test_each_part_that_dies_comes_back_by_itself(well: Composed, service: str) -> None:
    (container,) = well.containers(service)[:1]
    started = "docker inspect -f '{{.State.StartedAt}}' " + container["ID"]
    before = well.host.run(started).stdout
    well.kill(container["ID"])
    assert comes(lambda: well.host.run(started).stdout != before, 60)
    well.wait_healthy(*ALL)
    assert backed_up(well)["status"] == "succeeded"


@pytest.mark.parametrize(("service", "told"), [("redis", "Redis does not answer"), ("postgres", "database")])
def test_a_server_that_is_stopped_and_started(well: Composed, target: LabHost, service: str, told: str) -> None:
    number = held_backup(well, target)
    well.compose("stop", service)
    status = well.herder("status", check=False)
    assert status.code == 1
    assert told in status.stderr
    well.compose("start", service)
    well.wait_healthy(*ALL)
    target.run(f"rm {HOLD}")
    assert well.wait_job(number, "succeeded", "failed")["status"] == "succeeded"
    well.wait_well()


def test_down_and_up_again_keeps_keys_and_generations(well: Composed) -> None:
    before = backed_up(well)
    well.compose("down", seconds=300)
    well.up()
    assert well.job(before["id"])["status"] == "succeeded"
    assert backed_up(well)["status"] == "succeeded"


def test_the_image_is_built_without_buildkit_too(stack: Composed) -> None:
    arguments = "--build-arg BASE=piherder-lab-slim:trixie --build-arg PIP_NO_INDEX=1"
    build = f"DOCKER_BUILDKIT=0 docker build -q {arguments} -f docker/Dockerfile -t old-way ."
    stack.host.run(f"cd /srv/piherder && {build}", seconds=600)
    assert stack.host.run("docker run --rm old-way herder version", check=False).code == 0
