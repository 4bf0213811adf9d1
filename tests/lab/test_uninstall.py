"""What `make install` refuses, what `make uninstall` leaves, and the same house on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.base import comes
from tests.lab.installed import COPY, GOOD, UP_SECONDS, House, leave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab.host import LabHost


@pytest.fixture(scope="module")
def bare(make_host: Callable[..., LabHost]) -> Iterator[House]:
    """A host with a clone and nothing installed; every test leaves it so."""
    host = make_host("bare")
    found = House(host)
    found.bring()
    yield found
    leave(host)


def untouched(house: House) -> bool:
    paths = "/opt/piherder /etc/piherder /var/lib/piherder /var/backups/piherder /usr/local/bin/herder"
    return house.host.run(f"ls -d {paths} 2>/dev/null; getent passwd piherder", check=False).stdout == ""


def test_a_32_bit_system_gets_one_sentence(bare: House) -> None:
    bare.host.run("printf '#!/bin/sh\\necho armhf\\n' > /usr/local/bin/dpkg && chmod 755 /usr/local/bin/dpkg")
    done = bare.make("install", "--yes", check=False)
    bare.host.run("rm /usr/local/bin/dpkg")
    assert done.stderr.startswith("PiHerder needs a 64-bit system (amd64 or arm64), and this one is armhf")
    assert untouched(bare)


def test_without_systemd_it_says_what_to_use(bare: House) -> None:
    inner = f"make -C {COPY} install ARGS=--yes"
    done = bare.host.run(f"unshare --pid --fork --mount-proc {inner}", check=False)
    assert done.stderr.startswith("PiHerder installs services for systemd, which does not run here")
    assert untouched(bare)


def test_without_root_it_says_so(bare: House) -> None:
    bare.host.run(f"id bob || useradd -m bob; rm -rf ~bob/p; cp -r {COPY} ~bob/p; chown -R bob ~bob/p")
    done = bare.host.run("make -C ~/p install ARGS=--yes", check=False, user="bob")
    assert done.stderr.startswith("Installed services belong to root: start it again with sudo make install.")
    assert untouched(bare)


def test_data_of_a_make_run_by_root_are_left_alone(bare: House) -> None:
    bare.host.run("mkdir -p /var/lib/piherder && touch /var/lib/piherder/db.sqlite3")
    done = bare.make("install", "--yes", check=False)
    assert done.stderr.startswith("The folder /var/lib/piherder holds files of root")
    bare.host.run("rm -r /var/lib/piherder")
    assert untouched(bare)


def test_what_is_uninstalled_comes_back_with_its_data(bare: House) -> None:
    bare.make("install", "--yes --port 8123 --backups /srv/backups")
    bare.add_itself()
    bare.herder("run_job", "backup", "--host", "self", "--wait")
    assert "/srv/backups" in bare.make("uninstall").stdout
    assert (
        bare.host.run("ls -d /opt/piherder /etc/systemd/system/piherder* /usr/local/bin/herder", check=False).stdout
        == ""
    )
    assert bare.host.run("pgrep -u piherder", check=False).stdout == ""
    assert bare.host.run("find /srv/backups -name page").stdout.count("/tree/") == 1
    said = bare.make("install", "--yes").stdout
    assert "password" not in said
    assert "http://127.0.0.1:8123/" in said
    assert "self" in bare.herder("generations", "self").stdout or bare.herder("generations", "self").stdout.count(
        "good"
    )
    bare.make("uninstall", "--purge", check=False)
    assert not untouched(bare), "nobody typed the words"
    bare.make("uninstall", "--purge --yes-delete-everything")
    assert untouched(bare)
    assert bare.host.run("ls -d /srv/backups", check=False).code != 0


def test_postgresql_of_the_distribution(make_host: Callable[..., LabHost]) -> None:
    host = make_host("pg")
    try:
        if host.run("apt-get update -q && apt-cache show postgresql", check=False, seconds=300).code:
            pytest.skip("no mirror of Debian can be reached from the lab, and PostgreSQL comes from there")
        found = House(host)
        found.bring()
        found.make("install", "--yes --database postgresql")
        status = found.status()
        assert (status["problems"], status["database"]["kind"]) == ([], "PostgreSQL")
        old = found.release()
        found.change_clone("9.7", GOOD)
        found.make("upgrade", "--yes")
        found.make("upgrade", "--back --yes")
        tables = host.run("runuser -u piherder -- psql -h /var/run/postgresql -Atc '\\dt'").stdout
        assert "jobs_job" in tables
        assert "proof_of_upgrade" not in tables
        assert found.release() == old
        host.reboot()
        assert comes(found.is_well, UP_SECONDS), found.status()["problems"]
        found.make("uninstall", "--purge --yes-delete-everything")
        assert "piherder" not in host.run("runuser -u postgres -- psql -Atl").stdout
    finally:
        leave(host)
