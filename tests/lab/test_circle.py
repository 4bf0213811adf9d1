"""The whole circle: install, back up, lose the machine, come back on another one, restore a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.lab.base import comes
from tests.lab.installed import SERVICES, UP_SECONDS, House

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab.host import LabHost

BACKUPS = "/var/backups/piherder"
UNITS = " ".join(f"piherder-{part}" for part in SERVICES)
# Owners and modes of what a service copies are attributes of the files.
PACK = "tar --xattrs --xattrs-include='*' --numeric-owner"


def installed(host: LabHost) -> House:
    """PiHerder on this host, well."""
    house = House(host)
    house.bring()
    house.make("install", "--yes")
    assert comes(house.is_well, UP_SECONDS), house.status()["problems"]
    return house


def take_in(house: House, target: LabHost) -> None:
    """The target becomes a host of the herd."""
    target.run("mkdir -p /srv/files && echo precious > /srv/files/one && chown 1234:2345 /srv/files/one")
    words = ("--address", target.address, "--generate-key", "--trust-first-key", "--source", "/srv/files")
    told = house.host.run(f"herder add_host target --user root {' '.join(words)} 2>&1").stdout
    target.add_key(next(line for line in told.splitlines() if line.startswith("ssh-ed25519 ")))


def generations(house: House) -> list[tuple[int, str]]:
    """Number and state of what there is of the target."""
    found = json.loads(house.herder("generations", "target", "--json").stdout)
    return sorted((each["sequence"], each["status"]) for each in found)


def carry_away(house: House, folder: Path) -> str:
    """Copies of the newest archive, the key and the backup disk leave the machine; the name of the archive."""
    shelf = "/var/lib/piherder/herder-backups"
    name = house.host.run(f"cd {shelf} && ls herder-*.tar | tail -1").stdout.strip()
    house.host.take_out(f"cat {shelf}/{name}", folder / name)
    house.host.take_out("cat /var/lib/piherder/master.key", folder / "master.key")
    house.host.take_out(f"{PACK} -C {BACKUPS} -c .", folder / "disk.tar")
    return name


def bring_along(house: House, folder: Path, name: str) -> None:
    """What was carried away arrives on the new machine."""
    for file in (name, "master.key"):
        house.host.copy_in(folder / file, f"/home/saved/{file}")
    house.host.run("chown -R piherder: /home/saved && chmod 700 /home/saved")
    house.host.feed(folder / "disk.tar", f"{PACK} -C {BACKUPS} -xp --same-owner && chown -R -h piherder: {BACKUPS}")


def test_a_lost_herder_comes_back_on_another_machine(make_host: Callable[..., LabHost], tmp_path: Path) -> None:
    target, old = make_host("target"), installed(make_host("first"))
    take_in(old, target)
    old.herder("run_job", "backup", "--host", "target", "--wait")
    old.herder("run_job", "herder_backup", "--wait")
    # One that the archive does not know: only the disk tells of it.
    target.run("echo later > /srv/files/two")
    old.herder("run_job", "backup", "--host", "target", "--wait")
    before = generations(old)
    assert [state for _, state in before] == ["good", "good"]
    schedules = old.herder("schedules").stdout
    assert "target" in schedules
    archive = carry_away(old, tmp_path)
    old.host.remove()

    new = installed(make_host("second"))
    new.host.run(f"systemctl stop piherder.target {UNITS}", seconds=200)
    bring_along(new, tmp_path, archive)
    words = (f"/home/saved/{archive}", "--key", "/home/saved/master.key")
    assert "Nothing was changed" in new.herder("herder_restore", *words, "--dry-run").stdout
    assert "on hold" in new.herder("herder_restore", *words, "--yes").stdout
    new.herder("adopt_generations")
    new.host.run("systemctl start piherder.target")
    assert comes(lambda: len(new.status()["nodes"]) == 1, UP_SECONDS)
    assert len(new.status()["holds"]) == 1
    assert generations(new) == before
    assert new.herder("schedules").stdout.count("target") == schedules.count("target")

    refused = new.herder("run_job", "backup", "--host", "target", check=False)
    assert (refused.code, "release it first" in refused.stderr) == (1, True), refused
    new.herder("release")
    target.run("rm /srv/files/*")
    new.herder("restore", "target", "/srv/files/two", "--to", "target:/srv/back", "--wait")
    assert target.run("cat $(find /srv/back -name two)").stdout == "later\n"
    new.herder("restore", "target", "/srv/files/one", "--wait")
    assert target.run("cat /srv/files/one; stat -c %u:%g /srv/files/one").stdout == "precious\n1234:2345\n"
    new.herder("run_job", "herder_backup", "--wait")  # without an archive of its own `status` warns
    assert comes(new.is_well, UP_SECONDS), new.status()["problems"]
