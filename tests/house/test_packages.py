"""What the set-up decides about system packages, and that it leaves the machine's services as they were."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from piherder.house import packages
from piherder.house.folder import CLONE
from piherder.house.ports import listening_ports
from piherder.house.processes import wait_until

if TYPE_CHECKING:
    from piherder.house.packages import Need

POLICY = """\
rsync:
  Installed: 3.4.1-1
  Candidate: 3.4.1-1
  Version table:
 *** 3.4.1-1 500
acl:
  Installed: (none)
  Candidate: 2.3.2-2
  Version table:
     2.3.2-2 500
gone:
  Installed: (none)
  Candidate: (none)
  Version table:
"""


def names(found: list[Need]) -> list[str]:
    return [need.package for need in found]


def test_names_only_what_the_machine_lacks(tmp_path: Path) -> None:
    found = packages.missing(packages.PURPOSES["demo"], {"ssh", "rsync", "setfacl"}.__contains__, tmp_path, True)
    assert names(found) == ["openssh-server", "attr"]


def test_nothing_is_missing_where_everything_is_there(tmp_path: Path) -> None:
    assert packages.missing(packages.PURPOSES["demo"], lambda _name: True, tmp_path, True) == []


def test_a_python_without_ensurepip_needs_the_venv_package_of_its_own_version(tmp_path: Path) -> None:
    found = packages.missing(packages.PURPOSES["run"], lambda _name: True, tmp_path, False)
    assert names(found) == [f"python3.{sys.version_info[1]}-venv"]


def test_any_installed_postgresql_version_is_enough(tmp_path: Path) -> None:
    assert names(packages.missing([packages.POSTGRESQL], lambda _n: True, tmp_path, True)) == ["postgresql"]
    server = tmp_path / "usr/lib/postgresql/17/bin/initdb"
    server.parent.mkdir(parents=True)
    server.touch()
    assert packages.missing([packages.POSTGRESQL], lambda _n: False, tmp_path, True) == []


def test_no_purpose_asks_for_a_redis_package() -> None:
    assert not any("redis" in need.package for needs in packages.PURPOSES.values() for need in needs)


def test_programs_in_sbin_are_found_with_an_ordinary_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    assert packages.find_command("sshd") == "/usr/sbin/sshd"
    assert packages.find_command("no-such-program") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rsync  version 3.2.7  protocol version 31\n", (3, 2)),
        ("rsync  version v3.4.1  protocol version 32\n", (3, 4)),
        ("rsync  version 3.10.0+ds1  protocol version 33\n", (3, 10)),
        ("openrsync: protocol version 29\n", None),
    ],
)
def test_reads_the_rsync_version(text: str, expected: tuple[int, int] | None) -> None:
    assert packages.rsync_version(text) == expected


def test_the_rsync_of_this_machine_is_accepted() -> None:
    packages.check_rsync()


def test_unknown_packages_call_for_fresh_lists() -> None:
    assert packages.without_candidate(POLICY, ["rsync", "acl"]) == []
    assert packages.without_candidate(POLICY, ["rsync", "gone", "never-heard-of"]) == ["gone", "never-heard-of"]


def test_age_of_the_package_lists(tmp_path: Path) -> None:
    lists = tmp_path / "var/lib/apt/lists"
    (lists / "partial").mkdir(parents=True)
    assert packages.lists_age(tmp_path, time.time()) is None
    (lists / "mirror_dists_trixie_main_binary-amd64_Packages.lz4").touch()
    for folder in (lists, lists / "partial"):
        os.utime(folder, (1000, 1000))
    assert packages.lists_age(tmp_path, 1500) == 500


def test_services_that_ran_before_are_not_held() -> None:
    needs = [packages.SSH_SERVER, packages.POSTGRESQL, packages.ACL]
    assert packages.held_services(needs, {"bash"}) == ["ssh", "sshd", "postgresql"]
    assert packages.held_services(needs, {"bash", "sshd"}) == ["postgresql"]


def test_the_labs_engine_is_installed_and_not_started() -> None:
    needs = packages.PURPOSES["lab"]
    assert {"docker.io", "debootstrap", "iproute2", "iptables"} <= {need.package for need in needs}
    assert {"docker", "containerd"} <= set(packages.held_services(needs, {"bash"}))
    assert set(packages.PURPOSES["test"]) <= set(needs)


def ask(policy: Path, *arguments: str) -> int:
    return subprocess.run([policy, *arguments]).returncode


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "usr/sbin/policy-rc.d"
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.parametrize("unit", ["ssh", "ssh.service", "ssh.socket", "postgresql", "postgresql@17-main.service"])
def test_units_of_new_packages_are_denied(tmp_path: Path, policy: Path, unit: str) -> None:
    with packages.services_held(tmp_path, ["ssh", "postgresql"]):
        assert ask(policy, unit, "start") == 101


@pytest.mark.parametrize("unit", ["cron", "cron.service", "sshguard", "docker.socket"])
def test_other_units_are_left_alone(tmp_path: Path, policy: Path, unit: str) -> None:
    with packages.services_held(tmp_path, ["ssh", "postgresql"]):
        assert ask(policy, unit, "restart") == 0


def test_with_no_service_to_hold_everything_is_allowed(tmp_path: Path, policy: Path) -> None:
    with packages.services_held(tmp_path, []):
        assert ask(policy, "ssh", "start") == 0


def test_the_policy_is_gone_afterwards(tmp_path: Path, policy: Path) -> None:
    with packages.services_held(tmp_path, ["ssh"]):
        assert policy.exists()
    assert list(policy.parent.iterdir()) == []


def test_the_policy_is_gone_after_an_interruption(tmp_path: Path, policy: Path) -> None:
    with pytest.raises(KeyboardInterrupt), packages.services_held(tmp_path, ["ssh"]):
        raise KeyboardInterrupt
    assert list(policy.parent.iterdir()) == []


@pytest.fixture
def own_policy(policy: Path) -> str:
    text = '#!/bin/sh\n[ "$1" = exim4 ] && exit 101\nexit 104\n'
    policy.write_text(text)
    policy.chmod(0o755)
    return text


def test_a_policy_that_was_there_is_asked_and_put_back(tmp_path: Path, policy: Path, own_policy: str) -> None:
    with packages.services_held(tmp_path, ["ssh"]):
        assert [ask(policy, unit, "start") for unit in ("ssh", "exim4", "cron")] == [101, 101, 104]
    assert policy.read_text() == own_policy
    assert os.access(policy, os.X_OK)


def test_what_a_killed_set_up_left_is_mended_by_the_next(tmp_path: Path, policy: Path, own_policy: str) -> None:
    saved = policy.with_name("policy-rc.d.piherder-saved")
    policy.rename(saved)
    policy.write_text(packages.policy_script(["ssh"], saved))
    with packages.services_held(tmp_path, ["redis-server"]):
        assert ask(policy, "exim4", "start") == 101
    assert policy.read_text() == own_policy
    assert not saved.exists()


def test_without_root_and_sudo_the_packages_are_named_in_one_line(tmp_path: Path) -> None:
    # a machine that has no program at all, whatever this one has; by standard input, because another user cannot
    # read a clone below /root
    script = Path(packages.__file__).read_text().replace(f'"{packages.SBIN}"', '"/nowhere"')
    user = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*(user if os.geteuid() == 0 else []), "/usr/bin/python3", "-", "--for", "run", "--yes"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, cwd="/", env={"PATH": "/nowhere"})
    assert done.returncode == 1
    assert "apt-get install openssh-client rsync" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def on_a_terminal(answer: bytes) -> tuple[int, str]:
    """Exit code and output of the set-up of a machine without any program, on a terminal where `answer` is typed."""
    script = Path(packages.__file__).read_text().replace(f'"{packages.SBIN}"', '"/nowhere"')
    own, other = pty.openpty()
    try:
        command = ["/usr/bin/python3", "-c", script, "--for", "run"]
        with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env={"PATH": "/nowhere"}) as child:
            os.write(own, answer)
            code = child.wait(10)
        return code, os.read(own, 4000).decode()
    finally:
        os.close(own)
        os.close(other)


@pytest.mark.skipif(os.geteuid() != 0, reason="without root it stops before it asks")
@pytest.mark.parametrize("answer", [b"n\n", b"no\n", b"what\n"])
def test_on_a_terminal_it_asks_and_takes_no_for_an_answer(answer: bytes) -> None:
    code, said = on_a_terminal(answer)
    assert code == 1
    assert "with apt-get now? [Y/n]" in said
    assert "Nothing was installed; `make run` needs openssh-client rsync" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="without root it stops before it asks")
def test_the_end_of_input_on_a_terminal_is_an_interruption() -> None:
    code, said = on_a_terminal(b"\x04")
    assert (code, "Interrupted" in said) == (130, True)


INSTALL = """
import sys
from pathlib import Path
from piherder.house import packages
from piherder.house.folder import CLONE
packages.install(["openssh-server"], ["ssh"], Path(sys.argv[1]))
"""


def run_install(root: Path, apt: str) -> subprocess.Popen[str]:
    """An installation below `root` with a script in place of apt-get."""
    fake = root / "bin"
    fake.mkdir()
    for name, text in {"apt-get": apt, "apt-cache": "exit 0"}.items():
        (fake / name).write_text(f"#!/bin/sh\n{text}\n")
        (fake / name).chmod(0o755)
    path = f"{fake}:{os.environ['PATH']}"
    command = [sys.executable, "-c", INSTALL, str(root)]
    return subprocess.Popen(
        command, env={"PATH": path}, cwd=CLONE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_ctrl_c_lets_apt_end_in_order_and_takes_the_policy_away(tmp_path: Path, policy: Path) -> None:
    calls = tmp_path / "calls"
    apt = f"trap 'echo ended >> {calls}; exit 100' INT; echo $* > {calls}; while :; do sleep 0.05; done"
    with run_install(tmp_path, apt) as child:
        assert wait_until(calls.exists, 10)
        assert policy.exists()
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(10) != 0
    first, second = calls.read_text().splitlines()
    assert first.endswith(" update")  # nothing was installed after it
    assert second == "ended"
    assert list(policy.parent.iterdir()) == []


def test_a_failing_apt_is_quoted_and_the_policy_taken_away(tmp_path: Path, policy: Path) -> None:
    with run_install(tmp_path, "echo 'E: Unable to locate package openssh-server' >&2; exit 100") as child:
        _, said = child.communicate(timeout=10)
    assert "apt-get could not install openssh-server: E: Unable to locate package openssh-server" in said
    assert list(policy.parent.iterdir()) == []


def test_a_failing_installation_is_tried_again_with_fresh_lists_and_only_once(tmp_path: Path, policy: Path) -> None:
    with run_install(
        tmp_path, f'echo "$*" >> {tmp_path}/calls; case "$*" in *update) exit 0;; esac; exit 100'
    ) as child:
        child.communicate(timeout=10)
    kinds = [
        "update" if call.endswith("update") else "install" for call in (tmp_path / "calls").read_text().splitlines()
    ]
    assert kinds in (["update", "install"], ["install", "update", "install"])
    assert list(policy.parent.iterdir()) == []


def test_apt_is_told_to_ask_nothing_and_to_bring_nothing_else(tmp_path: Path, policy: Path) -> None:
    with run_install(tmp_path, f'echo "$DEBIAN_FRONTEND $*" >> {tmp_path}/calls') as child:
        assert child.wait(10) == 0
    last = (tmp_path / "calls").read_text().splitlines()[-1]
    assert last.startswith("noninteractive -y ")
    assert last.endswith("install --no-install-recommends openssh-server")


@pytest.mark.skipif(os.geteuid() != 0, reason="installing packages needs root")
def test_the_set_up_opens_no_port_and_leaves_no_policy() -> None:
    before = listening_ports()
    done = subprocess.run([sys.executable, packages.__file__, "--for", "test", "--yes"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not Path("/usr/sbin/policy-rc.d.piherder-saved").exists()
    opened = listening_ports() - before
    assert not opened.intersection({22, 5432, 6379})
