"""`make install` on a Debian host with systemd, and what happens to its services there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.lab.base import comes
from tests.lab.installed import SERVICES, UP_SECONDS
from tests.piherder.test_envfile import LINES

if TYPE_CHECKING:
    from tests.lab.installed import House


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
    assert house.host.run("ps -o user= -C celery,gunicorn,redis-server,valkey-server | sort -u").stdout == "piherder\n"


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
    assert comes(house.is_well, UP_SECONDS), house.status()["problems"]


@pytest.mark.parametrize("part", SERVICES)
def test_a_killed_process_comes_back(house: House, part: str) -> None:
    before = house.pid(part)
    house.host.run(f"kill -9 {before}")
    assert comes(lambda: house.pid(part) not in (0, before), 30)
    assert comes(house.is_well, UP_SECONDS), house.status()["problems"]
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
    assert comes(house.is_well, UP_SECONDS), house.status()["problems"]


def test_all_stop_and_start_with_the_target(house: House) -> None:
    house.host.run("systemctl stop piherder.target", seconds=200)
    # systemctl waits for the target alone; its services end behind it.
    assert comes(lambda: [house.pid(part) for part in SERVICES] == [0, 0, 0, 0], 200)
    house.host.run("systemctl start piherder.target")
    assert comes(house.is_well, UP_SECONDS), house.status()["problems"]


def test_a_further_worker_has_a_name_of_its_own(house: House) -> None:
    house.host.run("systemctl start piherder-worker@2")
    try:
        assert comes(lambda: len(house.status()["nodes"]) == 2, UP_SECONDS)
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
        assert comes(lambda: any(line.startswith(same) for line in house.status()["problems"]), UP_SECONDS)
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
