"""What a job needs to run rsync with a host, on a real one."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from django.conf import settings

from hosts import copying
from hosts.copying import Way
from hosts.models import Credential, Host, HostKey
from hosts.rsync.command import Remote
from hosts.rsync.outcome import Kind, Verdict
from hosts.vault import seal
from jobs.models import Failure
from jobs.registry import JobFailed, NotYet, Run
from tests.factories import make_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import Settings

    from hosts.ssh import Shell
    from hosts.ssh_target import Result
    from piherder.demo.sshd import Sshd

    from .conftest import MakeSshd

pytestmark = pytest.mark.django_db


@dataclass(slots=True)
class Live:
    """As much of a run as reaching a host needs."""

    connection: Shell | None
    job_id: int = 7
    lines: list[str] = field(default_factory=list)

    def shell(self) -> Shell | None:
        return self.connection

    def log(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        yield


@pytest.fixture
def run(shell: Shell) -> Run:
    return cast("Run", Live(shell))


def row_of(server: Sshd, private_key: str, name: str = "calm") -> Host:
    host = make_host(name, port=server.port, user=server.user, copy_lock=str(server.folder))
    Host.objects.filter(pk=host.pk).update(address="127.0.0.1")
    Credential.objects.filter(pk=host.credential_id).update(private_key_sealed=seal(private_key))
    key = server.host_key
    HostKey.objects.create(host=host, key_type=key.key_type, public=key.public_base64, fingerprint=key.fingerprint)
    return Host.objects.select_related("credential").get(pk=host.pk)


@pytest.fixture
def host(sshd: Sshd, login_key: tuple[str, str]) -> Host:
    return row_of(sshd, login_key[0])


def ssh(way: Way, command: str) -> str:
    argv = [*way.remote.ssh(), way.remote.alias, command]
    return subprocess.run(argv, env=dict(way.env), capture_output=True, text=True, check=True).stdout


def test_the_way_logs_in_by_ssh_alone_and_leaves_nothing(host: Host, run: Run, login_key: tuple[str, str]) -> None:
    with copying.way_to(host, run) as way:
        config = way.remote.ssh_config
        assert ssh(way, "echo here") == "here\n"
        assert way.root == (os.geteuid() == 0)
        folder = config.parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        secret = login_key[0].splitlines()[1]
        assert not [file for file in folder.iterdir() if file.is_file() and secret in file.read_text()]
    assert not folder.exists()


def test_a_long_runtime_folder_is_not_used(host: Host, run: Run, tmp_path: Path, settings: Settings) -> None:
    settings.PIHERDER_RUNTIME = str(tmp_path / ("long" * 20))
    with copying.way_to(host, run) as way:
        assert way.remote.ssh_config.parents[1] == Path(tempfile.gettempdir())


def test_a_key_that_ssh_cannot_read_is_refused_in_words(host: Host, run: Run) -> None:
    Credential.objects.update(private_key_sealed=seal("no key at all"))
    broken = Host.objects.select_related("credential").get(pk=host.pk)
    before = set(Path(settings.PIHERDER_RUNTIME).glob("ph7-*"))
    with pytest.raises(JobFailed, match="cannot be read; store it again") as failed, copying.way_to(broken, run):
        pytest.fail("there is no way")
    assert failed.value.code == Failure.REFUSED
    assert set(Path(settings.PIHERDER_RUNTIME).glob("ph7-*")) == before


def test_rights_of_a_real_login(host: Host, shell: Shell) -> None:
    uid, sudo = copying.rights(shell, host)
    assert (uid, sudo and uid == 0) == (os.geteuid(), False)


@dataclass(frozen=True, slots=True)
class Says:
    """A shell that answers with what it was given."""

    exit_status: int | None
    stdout: str = ""

    def script(self, text: str, **_: Any) -> Says:
        return self


@pytest.mark.parametrize(
    ("stdout", "rights"),
    [("0\n", (0, False)), ("7\nsudo\n", (7, True)), ("0\nsudo\n", (0, False)), ("1", (1, False)), ("", (-1, False))],
)
def test_rights_as_a_host_tells_them(stdout: str, rights: tuple[int, bool]) -> None:
    assert copying.rights(Says(0, stdout), Host(name="pi1")) == rights


@dataclass(slots=True)
class Counted:
    """A shell that counts how often it is asked."""

    shell: Shell
    asked: int = 0

    def script(self, text: str, *, timeout: float) -> Result:
        self.asked += 1
        return self.shell.script(text, timeout=timeout)


def test_a_host_is_asked_once(host: Host, shell: Shell) -> None:
    counted = Counted(shell)
    with copying.way_to(host, cast("Run", Live(cast("Shell", counted)))):
        assert counted.asked == 1


def test_a_look_goes_with_the_same_question_and_gives_no_rights(host: Host, shell: Shell) -> None:
    counted = Counted(shell)
    with copying.way_to(host, cast("Run", Live(cast("Shell", counted))), 'echo "$rsync"; echo sudo') as way:
        assert (counted.asked, way.said, way.remote.sudo) == (1, ("rsync", "sudo"), False)


def test_a_missing_rsync_is_named() -> None:  # case C03
    with pytest.raises(JobFailed, match="rsync is missing on pi1; install the package rsync there") as failed:
        copying.rights(Says(3, "0"), Host(name="pi1"))
    assert failed.value.code == Failure.REFUSED


def lock_of(host: Host) -> Way:
    return Way(host, {}, Remote("calm", Path("/none"), lock=host.copy_lock), root=True)


@contextmanager
def a_copy_running(folder: str) -> Iterator[None]:
    """Something holds the lock of the host."""
    held = subprocess.Popen(
        ["flock", "--no-fork", folder, "sh", "-c", "echo held; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with held:
        assert held.stdout is not None
        assert held.stdout.readline() == b"held\n"
        yield
        held.communicate()


def test_a_copy_on_the_host_is_a_wait(host: Host, run: Run) -> None:
    with (
        a_copy_running(host.copy_lock),
        pytest.raises(NotYet, match=r"Another copy is running on calm\."),
        copying.way_to(host, run),
    ):
        pytest.fail("two at once")
    with copying.way_to(host, run) as way:
        assert way.remote.lock == host.copy_lock


def test_a_host_without_flock_is_not_busy(shell: Shell) -> None:
    host = Host(name="pi1")
    assert copying.rights(shell, host, "no-such-flock") == copying.rights(shell, host)


def test_the_end_of_a_copy_is_what_the_host_says(host: Host, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert copying.ended_there(lock_of(host), run)
    monkeypatch.setattr(copying, "CONFIRM", 1.0)
    with a_copy_running(host.copy_lock):
        assert not copying.ended_there(lock_of(host), run)


def test_a_host_that_is_off_confirms_nothing(
    make_sshd: MakeSshd, login_key: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_sshd("off")
    host = row_of(server, login_key[0], "off")
    server.kill()
    monkeypatch.setattr(copying, "CONFIRM", 0.5)
    live = Live(None)
    assert not copying.ended_there(lock_of(host), cast("Run", live))
    assert live.lines[0].startswith("off cannot say yet whether the copy has ended there: ")


def test_a_folder_in_use_is_a_wait(tmp_path: Path) -> None:
    with (
        copying.own_folder(tmp_path, "pi1"),
        pytest.raises(NotYet, match="Another copy works in pi1's backup folder"),
        copying.own_folder(tmp_path, "pi1"),
    ):
        pytest.fail("two at once")


def test_a_taken_lock_is_a_wait_and_nothing_else_is() -> None:
    for kind in Kind:
        verdict = Verdict(kind, "words")
        if kind in (Kind.BUSY_HERE, Kind.BUSY_THERE):
            with pytest.raises(NotYet, match="words"):
                copying.refuse_busy(verdict)
        else:
            copying.refuse_busy(verdict)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Kind.FULL, Failure.NO_SPACE),
        (Kind.LOST, Failure.LOST_CONTACT),
        (Kind.SUDO, Failure.REFUSED),
        (Kind.FAILED, Failure.ERROR),
    ],
)
def test_codes_of_verdicts(kind: Kind, code: Failure) -> None:
    assert copying.code_of(Verdict(kind, "")) == code


def test_names_are_shown_printable_and_not_all() -> None:
    assert copying.shown((b"caf\xe9", b"b", b"c"), limit=2) == [r"caf\#351", "b"]


def left_by_a_killed_job(base: Path, age: float) -> Path:
    """A job's folder whose agent is gone, so many seconds old."""
    folder = base / "ph7-abc"
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(folder / "agent.sock"))
    os.utime(folder, (time.time() - age,) * 2)
    return folder


@pytest.mark.parametrize(("age", "stays"), [(1000, False), (10, True)])
def test_what_a_killed_job_left_is_swept_once_it_is_old_enough(age: float, stays: bool) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        left = left_by_a_killed_job(Path(base), age)
        copying.sweep(Path(base))
        assert left.exists() is stays


def test_the_folder_of_a_running_job_is_never_swept() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as base, socket.socket(socket.AF_UNIX) as agent:
        folder = Path(base) / "ph7-abc"
        folder.mkdir()
        agent.bind(str(folder / "agent.sock"))
        agent.listen()
        os.utime(folder, (0, 0))
        copying.sweep(Path(base))
        assert folder.exists()
