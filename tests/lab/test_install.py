"""`make install`, `make upgrade` and `make uninstall` on Debian hosts with systemd, and what happens to them there."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from piherder.house.folder import CLONE
from piherder.house.processes import wait_until
from piherder.house.upgrade import RECORD
from tests.lab.wheels import wheels
from tests.piherder.test_envfile import LINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tests.lab.host import Completed, LabHost

NOT_INSTALLED = ("./.venv", "./.git", "__pycache__", "./.*_cache", "./build")
SERVICES = ("redis", "web", "worker", "beat")
UP_SECONDS = 120
COPY = "/root/piherder"
GOOD = """\
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("jobs", "{last}")]
    operations = [migrations.RunSQL("CREATE TABLE proof_of_upgrade (id integer)", migrations.RunSQL.noop)]
"""
# Not atomic: what it made before it fails stays in the database, unless the copy comes back.
BAD = """\
from django.db import migrations

def fail(apps, schema_editor):
    raise ValueError("this migration is broken")

class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "{last}")]
    operations = [migrations.RunSQL("CREATE TABLE half_made (id integer)"), migrations.RunPython(fail)]
"""


class House:
    """A host on which PiHerder is, was, or will be installed."""

    def __init__(self, host: LabHost) -> None:
        self.host = host
        self.said = ""  # by the installation

    def bring(self) -> None:
        """A fresh clone, and the packages of its requirements, so that no package index is needed."""
        self.host.run(f"rm -rf {COPY}")
        self.host.copy_in(CLONE, COPY, exclude=NOT_INSTALLED)
        self.host.copy_in(wheels(), "/wheels")

    def make(self, target: str, arguments: str = "", check: bool = True) -> Completed:
        pip = "export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_CONFIG_FILE=/dev/null"
        script = f"{pip}; make -C {COPY} --no-print-directory {target} ARGS={shlex.quote(arguments)}"
        return self.host.run(script, check=check, seconds=400)

    def herder(self, *words: str, check: bool = True) -> Completed:
        return self.host.run(f"herder {shlex.join(words)}", check=check)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.herder("status", "--json", check=False).stdout)
        return found

    def is_well(self) -> bool:
        return bool(self.status()["well"])

    def pid(self, part: str) -> int:
        return int(self.host.run(f"systemctl show --value -p MainPID piherder-{part}").stdout)

    def tables(self) -> str:
        ask = "SELECT name FROM sqlite_master"
        code = f"import sqlite3; print([*sqlite3.connect('/var/lib/piherder/db.sqlite3').execute('{ask}')])"
        return self.host.run(f"python3 -c {shlex.quote(code)}").stdout

    def change_clone(self, version: str, migration: str = "") -> None:
        """Make the clone another version, where wanted with one migration more."""
        self.bring()
        last = sorted(path.stem for path in (CLONE / "jobs/migrations").glob("0*.py"))[-1]
        self.host.run(f"sed -i 's/^version = .*/version = \"{version}\"/' {COPY}/pyproject.toml")
        if migration:
            path = f"{COPY}/jobs/migrations/9999_proof.py"
            self.host.run(f"cat > {path} <<'END'\n{migration.format(last=last)}END")

    def release(self) -> str:
        return self.host.run("basename $(readlink -f /opt/piherder/current)").stdout.strip()

    def add_itself(self) -> None:
        """The host becomes one of its own herd, over its own sshd."""
        self.host.run("mkdir -p /srv/site/shared && chmod 2775 /srv/site/shared && echo words > /srv/site/page")
        self.host.run("chown 1234:2345 /srv/site/page && install -m 6755 /bin/true /srv/site/tool")
        words = "self --address 127.0.0.1 --user root --generate-key --source /srv/site --trust-first-key --no-schedule"
        told = self.host.run(f"herder add_host {words} 2>&1").stdout
        self.host.add_key(next(line for line in told.splitlines() if line.startswith("ssh-ed25519 ")))


def leave(host: LabHost) -> None:
    """End the host; its files, a minute's work with several releases in them, go with the lab."""
    host.engine.docker("kill", host.name)


@pytest.fixture(scope="module")
def house(make_host: Callable[..., LabHost]) -> Iterator[House]:
    """An embedded installation that has this host in its herd; every test leaves it well."""
    host = make_host("house")
    found = House(host)
    found.bring()
    found.said = found.make("install", "--yes").stdout
    found.add_itself()
    found.herder("run_job", "backup", "--host", "self", "--wait")
    found.herder("run_job", "herder_backup", "--wait")
    yield found
    leave(host)


@pytest.fixture(scope="module")
def bare(make_host: Callable[..., LabHost]) -> Iterator[House]:
    """A host with a clone and nothing installed; every test leaves it so."""
    host = make_host("bare")
    found = House(host)
    found.bring()
    yield found
    leave(host)


# --- installed ----------------------------------------------------------------------------------------------------


def test_it_is_well_and_tells_its_form(house: House) -> None:
    status = house.status()
    assert status["problems"] == []
    assert status["installation"]["form"] == "installed"
    assert status["installation"]["release"] == house.release()
    assert set(status["installation"]["programs"]) >= {f"piherder-{part}.service" for part in SERVICES}


def test_the_last_lines_are_login_address_and_tunnel(house: House) -> None:
    login, up, _, tunnel = house.said.splitlines()[-4:]
    assert re.fullmatch(r"User admin, password \S{16} \(shown once, never again\)", login)
    assert up == "PiHerder is up at http://127.0.0.1:8000/"
    assert tunnel.startswith("  ssh -L 8000:127.0.0.1:8000 root@")


def test_everything_belongs_to_whom_it_should(house: House) -> None:
    paths = "/var/lib/piherder /var/backups/piherder /etc/piherder/piherder.env /opt/piherder/current/manage.py"
    shown = house.host.run(f"stat -c '%a %U %G' {paths}").stdout.splitlines()
    assert shown == ["700 piherder piherder", "700 piherder piherder", "640 root piherder", "644 root root"]
    assert house.host.run("getent passwd piherder").stdout.split(":")[5:] == [
        "/var/lib/piherder",
        "/usr/sbin/nologin\n",
    ]
    assert house.host.run("ps -o user= -C celery,gunicorn,redis-server,valkey-server | sort -u").stdout != "root\n"


def test_units_are_clean_and_closed(house: House) -> None:
    names = " ".join(f"piherder-{part}.service" for part in SERVICES)
    verified = house.host.run(f"systemd-analyze verify {names} piherder-worker@2.service piherder.target 2>&1")
    assert [line for line in verified.stdout.splitlines() if "piherder" in line] == []
    for part in SERVICES:
        told = house.host.run(f"systemd-analyze security --no-pager piherder-{part}.service").stdout.splitlines()[-1]
        assert float(re.findall(r"\d+\.\d", told)[0]) < 2, told


def test_settings_are_read_as_systemd_reads_them(house: House) -> None:
    names = {f"A{number}{line.strip()[1:]}": value for number, (line, value) in enumerate(LINES.items())}
    house.host.run("cat > /root/lines <<'END'\n" + "\n".join(names) + "\nEND")
    told = house.host.run("systemd-run -q --wait --pipe -p EnvironmentFile=/root/lines env").stdout.splitlines()
    for number, value in enumerate(LINES.values()):
        assert f"A{number}={value}" in told


def test_installing_again_changes_nothing(house: House) -> None:
    house.bring()
    pids = [house.pid(part) for part in SERVICES]
    house.host.run("echo '# mine' >> /etc/piherder/piherder.env")
    said = house.make("install", "--yes").stdout
    assert "Found and kept: the user piherder, settings in /etc/piherder/piherder.env, data" in said
    assert "password" not in said
    assert [house.pid(part) for part in SERVICES] == pids
    assert (
        "# mine" in house.host.run("cat /etc/piherder/piherder.env; sed -i '/mine/d' /etc/piherder/piherder.env").stdout
    )


def test_who_may_not_is_told_in_one_sentence(house: House) -> None:
    house.host.run("id bob || useradd -m bob")
    done = house.host.run("herder hosts", check=False, user="bob")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr == 'PiHerder is installed here and runs as the user piherder: write "sudo herder hosts".\n'


def test_sudo_is_enough(house: House) -> None:
    house.host.run("id eve || useradd -m eve; echo 'eve ALL=(piherder) NOPASSWD: ALL' > /etc/sudoers.d/eve")
    assert "self" in house.host.run("herder hosts", user="eve").stdout


def test_the_database_is_not_changed_under_the_services(house: House) -> None:
    assert "PiHerder is running on this data" in house.herder("migrate", check=False).stderr


def test_a_reboot_brings_everything_back(house: House) -> None:
    house.host.reboot()
    assert wait_until(house.is_well, UP_SECONDS), house.status()["problems"]


@pytest.mark.parametrize("part", SERVICES)
def test_a_killed_process_comes_back(house: House, part: str) -> None:
    before = house.pid(part)
    house.host.run(f"kill -9 {before}")
    assert wait_until(lambda: house.pid(part) not in (0, before), 30)
    assert wait_until(house.is_well, UP_SECONDS), house.status()["problems"]
    assert "restarted" in house.status()["installation"]["programs"][f"piherder-{part}.service"]
    house.host.run(f"systemctl reset-failed piherder-{part}")


@pytest.mark.parametrize("part", SERVICES)
def test_a_stopped_service_is_told_and_comes_back(house: House, part: str) -> None:
    house.host.run(f"systemctl stop piherder-{part}", seconds=200)
    told = house.status()
    assert not told["well"]
    assert [line for line in told["problems"] if line.startswith(f"piherder-{part}.service does not run (inactive")]
    house.host.run("systemctl start piherder.target")
    house.host.run(f"systemctl start piherder-{part}")
    assert wait_until(house.is_well, UP_SECONDS), house.status()["problems"]


def test_all_stop_and_start_with_the_target(house: House) -> None:
    house.host.run("systemctl stop piherder.target", seconds=200)
    # systemctl waits for the target alone; its services end behind it.
    assert wait_until(lambda: [house.pid(part) for part in SERVICES] == [0, 0, 0, 0], 200)
    house.host.run("systemctl start piherder.target")
    assert wait_until(house.is_well, UP_SECONDS), house.status()["problems"]


def test_a_further_worker_has_a_name_of_its_own(house: House) -> None:
    house.host.run("systemctl start piherder-worker@2")
    try:
        assert wait_until(lambda: len(house.status()["nodes"]) == 2, UP_SECONDS)
        assert {node["name"] for node in house.status()["nodes"]} == {"celery@house", "celery@house-2"}
    finally:
        house.host.run("systemctl stop piherder-worker@2", seconds=200)


def test_a_worker_of_the_same_name_is_told(house: House) -> None:
    drop_in = "/run/systemd/system/piherder-worker@3.service.d"
    words = (
        "[Service]\\nExecStart=\\nExecStart=/opt/piherder/current/.venv/bin/python -m piherder.house serve worker\\n"
    )
    house.host.run(f"mkdir -p {drop_in} && printf '{words}' > {drop_in}/same.conf && systemctl daemon-reload")
    house.host.run("systemctl start --no-block piherder-worker@3")
    try:
        same = "piherder-worker@3.service does not start, because a worker of the same name"
        assert wait_until(lambda: any(line.startswith(same) for line in house.status()["problems"]), UP_SECONDS)
        assert house.pid("worker")
    finally:
        house.host.run(f"systemctl stop piherder-worker@3; rm -r {drop_in}; systemctl daemon-reload", seconds=200)


def test_a_backup_under_the_hardening_keeps_owners_and_modes(house: House) -> None:
    house.herder("run_job", "backup", "--host", "self", "--wait")
    found = house.host.run("find /var/backups/piherder/self -path '*/tree/*' -printf '%f %u %m\\n' | sort -u").stdout
    assert "tool piherder 755" in found
    house.herder("restore", "self", "/srv/site", "--to", "self:/srv/back", "--wait")
    kept = house.host.run("find /srv/back -name page -printf '%U:%G '; find /srv/back -name tool -printf '%m'").stdout
    assert kept == "1234:2345 6755"


def test_a_disk_that_was_mounted_later_takes_backups(house: House) -> None:
    # As on a host whose systemd was started by the kernel: there mounts reach the services that run already.
    house.host.run("mount --make-rshared / && systemctl restart piherder-worker", seconds=200)
    house.host.run("mkdir -p -m 755 /mnt/usb && mount -t tmpfs none /mnt/usb && chown piherder: /mnt/usb")
    try:
        house.herder("backup_root", "--add", "/mnt/usb", "--default")
        house.herder("run_job", "backup", "--host", "self", "--wait")
        assert house.host.run("find /mnt/usb -name page").stdout.count("/tree/") == 1
    finally:
        house.herder("backup_root", "--add", "/var/backups/piherder", "--default")
        house.host.run(
            "cd /opt/piherder/current && runuser -u piherder -- env PIHERDER_ENV_FILE=/etc/piherder/piherder.env "
            '.venv/bin/python manage.py shell -c "from hosts.models import BackupRoot, Generation as g; '
            "g.objects.filter(root__path='/mnt/usb').delete(); BackupRoot.objects.filter(path='/mnt/usb').delete()\""
        )
        house.host.run("umount /mnt/usb")


# --- upgrade ------------------------------------------------------------------------------------------------------


def test_an_upgrade_keeps_data_and_there_is_a_way_back(house: House) -> None:
    old = house.release()
    house.host.run("echo PIHERDER_RESERVED_SLOTS=0 >> /etc/piherder/piherder.env")
    house.change_clone("9.1", GOOD)
    said = house.make("upgrade", "--yes").stdout
    assert house.release().startswith("9.1-")
    assert "proof_of_upgrade" in house.tables()
    assert "self" in house.herder("hosts").stdout
    assert "PIHERDER_RESERVED_SLOTS=0" in house.host.run("cat /etc/piherder/piherder.env").stdout
    assert house.status()["holds"] == []
    assert "sudo make upgrade ARGS=--back" in said
    house.make("upgrade", "--back --yes")
    assert house.release() == old
    assert "proof_of_upgrade" not in house.tables()
    assert wait_until(house.is_well, UP_SECONDS), house.status()["problems"]


def test_the_printed_lines_go_back_too(house: House) -> None:
    old = house.release()
    house.change_clone("9.2", GOOD)
    said = house.make("upgrade", "--yes").stdout
    lines = said.partition("or, without this clone:\n")[2].replace("sudo ", "").replace("&& herder status", "")
    house.host.run(f"set -e\n{lines}", seconds=200)
    assert house.release() == old
    assert "proof_of_upgrade" not in house.tables()
    assert wait_until(house.is_well, UP_SECONDS), house.status()["problems"]


def test_a_failed_migration_goes_back_by_itself(house: House) -> None:
    old = house.release()
    house.change_clone("9.3", BAD)
    done = house.make("upgrade", "--yes", check=False)
    assert done.code != 0
    assert "this migration is broken" in done.stderr
    assert f"everything is as it was before, with {old}" in done.stderr
    assert house.release() == old
    assert "half_made" not in house.tables()
    assert house.status()["holds"] == []
    assert wait_until(house.is_well, UP_SECONDS), house.status()["problems"]


def test_code_that_does_not_start_goes_back_by_itself(house: House) -> None:
    old = house.release()
    house.change_clone("9.4")
    house.host.run(f"echo 'raise SystemExit(1)' >> {COPY}/piherder/wsgi.py")
    house.host.run(f"sed -i 's/^UP_SECONDS = .*/UP_SECONDS = 20.0/' {COPY}/piherder/house/install.py")
    done = house.make("upgrade", "--yes", check=False)
    assert "Not up after 20 s: the pages" in done.stderr
    assert house.release() == old
    assert wait_until(house.is_well, UP_SECONDS), house.status()["problems"]


def test_an_upgrade_gives_up_on_a_long_job_by_name(house: House) -> None:
    old = house.release()
    house.herder("edit_host", "self", "--before-hook", "sleep 45")
    house.herder("run_job", "backup", "--host", "self")
    assert wait_until(lambda: house.status()["jobs"]["running"] == 1, 30)
    house.change_clone("9.5")
    try:
        done = house.make("upgrade", "--yes --wait 0", check=False)
        assert re.search(r"Still at work after 0 min: job \d+ \(backup on self\). Nothing was changed", done.stderr)
        assert (house.release(), house.status()["holds"]) == (old, [])
    finally:
        house.herder("edit_host", "self", "--before-hook", "")
        assert wait_until(lambda: house.status()["jobs"]["running"] == 0, 90)


def test_a_hold_of_a_person_stays(house: House) -> None:
    house.herder("hold", "--reason", "holidays")
    house.change_clone("9.6")
    house.make("upgrade", "--yes")
    assert "holidays" in house.status()["holds"][0]
    house.herder("release")
    house.make("upgrade", "--back --yes")
    house.herder("release")


def test_records_are_roots_alone(house: House) -> None:
    found = house.host.run(f"find /opt/piherder ! -user root -o -name {RECORD} -perm /022").stdout
    assert found == ""


# --- refused, and gone --------------------------------------------------------------------------------------------


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
        assert wait_until(found.is_well, UP_SECONDS), found.status()["problems"]
        found.make("uninstall", "--purge --yes-delete-everything")
        assert "piherder" not in host.run("runuser -u postgres -- psql -Atl").stdout
    finally:
        leave(host)
