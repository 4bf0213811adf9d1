"""PiHerder in containers on a lab host: built without a package index or a registry, and driven as a person would."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tests.lab import base
from tests.lab.base import LabError, comes
from tests.lab.recipe import SLIM
from tests.lab.wheels import CLONE, wheels

if TYPE_CHECKING:
    from tests.lab.host import Completed, LabHost

PLACE = "/srv/piherder"
IMAGES = Path(__file__).with_name("images")
NOT_COPIED = (".git", ".venv", ".*_cache", "__pycache__", "docker/wheels", "docker/.env")
SETTINGS = f"""\
POSTGRES_PASSWORD=lab0secret0of0this0run0only
PIHERDER_BASE={SLIM.image}
PIHERDER_POSTGRES_IMAGE=lab-postgres
PIHERDER_REDIS_IMAGE=lab-redis
PIP_NO_INDEX=1
PIHERDER_DRAIN_GRACE_SEC=3
COMPOSE_FILE=compose.yml:/srv/images/quick.yml
"""


class Composed:
    """The compose project on a host. Times in seconds."""

    def __init__(self, host: LabHost) -> None:
        self.host = host

    def compose(self, *words: str, check: bool = True, seconds: float = 120) -> Completed:
        """`docker compose …` in the clone's docker folder."""
        return self.host.run(f"cd {PLACE}/docker && docker compose {shlex.join(words)}", check, seconds)

    def herder(self, *words: str, service: str = "web", check: bool = True, seconds: float = 120) -> Completed:
        """`herder …` inside a running service."""
        return self.compose("exec", "-T", service, "herder", *words, check=check, seconds=seconds)

    def rows(self, *words: str) -> Any:
        """What a herder command says as JSON."""
        return json.loads(self.herder(*words, "--json", check=False).stdout)

    def prepare(self) -> None:
        """Images for the servers and for the base, the clone with wheels, and its settings."""
        self.host.feed(base.tar(SLIM), f"docker import - {SLIM.image}")
        self.host.copy_in(IMAGES, "/srv/images")
        for name in ("postgres", "redis"):
            build = f"docker build -q -t lab-{name} -f {name}.Dockerfile ."
            self.host.run(f"cd /srv/images && DOCKER_BUILDKIT=0 {build}", seconds=300)
        self.host.copy_in(CLONE, PLACE, exclude=NOT_COPIED)
        self.host.copy_in(wheels(), f"{PLACE}/docker/wheels")
        settings = f"{SETTINGS}PIHERDER_LISTEN={self.host.address}:8000\nPIHERDER_HOSTS={self.host.address}\n"
        self.host.run(f"cat > {PLACE}/docker/.env <<'E'\n{settings}E")

    def up(self, *more: str) -> None:
        """Bring everything up and wait until it is healthy. Raises LabError with what the services say."""
        try:
            self.compose("up", "-d", "--wait", "--wait-timeout", "240", *more, seconds=300)
        except LabError as error:
            logs = self.compose("logs", "--no-color", "--tail", "15", check=False).stdout
            raise LabError(f"{error}\n{logs}") from None

    def containers(self, service: str = "") -> list[dict[str, Any]]:
        """What compose says of the running containers."""
        said = self.compose("ps", "--format", "json", *([service] if service else [])).stdout
        return [json.loads(line) for line in said.splitlines() if line.strip()]

    def health(self) -> dict[str, str]:
        """Health by service; the worst of a service's containers."""
        found: dict[str, str] = {}
        for each in self.containers():
            if found.get(each["Service"], "healthy") == "healthy":
                found[each["Service"]] = each["Health"]
        return found

    def wait_healthy(self, *services: str, seconds: float = 150) -> None:
        """Wait until these services are healthy again by themselves. Raises LabError."""

        def well() -> bool:
            found = self.health()
            return all(found.get(name) == "healthy" for name in services)

        if not comes(well, seconds):
            raise LabError(f"not healthy within {seconds:.0f} s: {self.health()}")

    def wait_well(self, seconds: float = 90) -> None:
        """Wait until `status` has nothing to complain about. Raises LabError with what it says."""
        seen: list[str] = []

        def well() -> bool:
            seen[:] = self.rows("status")["problems"]
            return not seen

        if not comes(well, seconds):
            raise LabError(f"not well within {seconds:.0f} s: {' '.join(seen)}")

    def kill(self, container: str) -> None:
        """SIGKILL to a container's first process from outside: a crash, not an order that the engine knows of."""
        self.host.run(f"kill -9 $(docker inspect -f '{{{{.State.Pid}}}}' {container})")

    def job(self, number: int) -> dict[str, Any]:
        """One job's row."""
        return cast("dict[str, Any]", self.rows("job", str(number)))

    def request(self, *words: str) -> int:
        """Request a job; its number."""
        (only,) = self.rows("run_job", *words)["jobs"]
        return int(only["job"]["id"])

    def wait_job(self, number: int, *states: str, seconds: float = 120) -> dict[str, Any]:
        """Wait until the job is in one of `states`. Raises LabError."""
        if not comes(lambda: self.job(number)["status"] in states, seconds):
            raise LabError(f"job {number} is not {' or '.join(states)} within {seconds:.0f} s: {self.job(number)}")
        return self.job(number)
