"""The lab keeps what it promises: real boots, real logins, nothing left."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.lab.base import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.lab.host import LabHost


@pytest.fixture(scope="module")
def host(make_host: Callable[..., LabHost]) -> Iterator[LabHost]:
    found = make_host("plain")
    yield found
    found.remove()


def test_systemd_is_process_one_and_all_its_units_start(host: LabHost) -> None:
    assert host.run("cat /proc/1/comm").stdout.strip() == "systemd"
    assert host.run("systemctl --failed --no-legend").stdout == ""


def test_a_reboot_is_a_new_boot_with_the_old_disk(host: LabHost) -> None:
    before = host.boot_id()
    host.run("echo kept > /root/kept")
    host.reboot()
    assert host.boot_id() not in {"", before}
    assert host.run("cat /root/kept").stdout == "kept\n"


def test_a_login_from_this_machine_with_a_key(host: LabHost, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    host.add_key(key.with_suffix(".pub").read_text())
    options = ["-i", str(key), "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={tmp_path}/known"]
    done = subprocess.run(["ssh", *options, f"root@{host.address}", "hostname"], capture_output=True, timeout=30)
    assert done.stdout == b"plain\n"


def test_files_and_folders_arrive_as_roots(host: LabHost, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/c").write_text("two")
    host.copy_in(tmp_path / "a", "/srv/x/a")
    host.copy_in(tmp_path, "/srv/y", exclude=["./a"])
    assert host.run("cat /srv/x/a; cd /srv/y; find . -type f -printf '%p %u\\n'").stdout == "one./b/c root\n"


def test_a_failing_script_is_told_with_its_words(host: LabHost) -> None:
    with pytest.raises(LabError, match=r"ended with 3: .*no luck"):
        host.run("echo no luck; exit 3")
    assert host.run("exit 3", check=False).code == 3


def test_a_script_that_hangs_is_left(host: LabHost) -> None:
    with pytest.raises(LabError, match="did not end within 1 s"):
        host.run("sleep 60", seconds=1)
