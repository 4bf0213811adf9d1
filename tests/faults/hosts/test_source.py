"""Sources that are missing, empty or unreadable, and names that a careless program cannot carry."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hosts.models import Source
from hosts.store.layout import TREE
from jobs.models import Failure, Status
from piherder.demo.sshd import SshdOptions
from piherder.house.folder import CLONE
from tests.hosts.families.conftest import contents
from tests.hosts.rsync.conftest import AS_NOBODY, needs_root

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.hosts.machine import HostHerd, Machine

pytestmark = pytest.mark.fault
ODD = (b"-rf", b"line\nbreak", b"caf\xe9", b"*?[a]", b"\\#012 '$(reboot)'")


def herder(herd: HostHerd, *words: bytes | str) -> subprocess.CompletedProcess[bytes]:
    """A management command in a process of its own."""
    return subprocess.run(
        [sys.executable, "manage.py", *words], cwd=CLONE, env=herd.env, capture_output=True, timeout=90
    )


def hide(pi: Machine) -> Path:
    """The source goes away; where it is now."""
    aside = pi.data.with_name("aside")
    pi.data.rename(aside)
    return aside


def test_missing(pi: Machine) -> None:
    pi.herd.worker()
    aside = hide(pi)
    job = pi.done()
    aside.rename(pi.data)
    assert (job.status, job.failure) == (Status.FAILED, Failure.ERROR)
    assert "is not a folder" in job.error


def test_empty(pi: Machine) -> None:
    pi.herd.worker()
    aside = hide(pi)
    pi.data.mkdir()
    job = pi.done()
    pi.data.rmdir()
    aside.rename(pi.data)
    assert (job.status, job.failure) == (Status.FAILED, Failure.QUESTION)
    assert "is its disk mounted?" in job.error


@pytest.fixture
def ordinary(make_machine: Callable[..., Machine], herd: HostHerd) -> Machine:
    """A host whose login is nobody until its sshd is started again, below a folder that nobody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="ph-"))
    herd.litter.append(folder)
    pi = make_machine(folder, force_command=f'exec {" ".join(AS_NOBODY)} sh -c "$SSH_ORIGINAL_COMMAND"')
    pi.sshd.options = SshdOptions()
    for open_to_all in (folder, pi.sshd.folder, pi.data, *pi.data.rglob("*")):
        if not open_to_all.is_symlink():
            open_to_all.chmod(0o755)
    pi.remember()
    return pi


@needs_root
def test_a_name_that_may_not_be_read_is_listed(ordinary: Machine) -> None:
    ordinary.herd.worker()
    (ordinary.data / "secret").write_text("secret")
    (ordinary.data / "secret").chmod(0o600)
    job = ordinary.done()
    ordinary.sshd.stop()
    assert job.status == Status.SUCCEEDED, job.error
    (warning, name) = ordinary.good()[-1].warnings
    assert ("may not read 1 of the names" in warning, name.endswith("/secret")) == (True, True)


@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o711])
def test_a_source_that_may_not_be_read_at_all(ordinary: Machine, mode: int) -> None:
    shut = ordinary.data.with_name("shut")
    shut.mkdir()
    (shut / "file").write_text("text")
    shut.chmod(mode)
    source = Source.objects.create(host=ordinary.host, path=str(shut), folder="shut")
    ordinary.herd.worker()
    job = ordinary.done()
    ordinary.sshd.stop()
    assert (job.status, source.generations.count()) == (Status.FAILED, 0), job.summary
    assert f"may not read 1 of the names on {ordinary.host.name}: {shut}" in job.error
    assert len(ordinary.good()) == 2


def test_odd_names_come_back_by_command(pi: Machine) -> None:
    odd = [bytes(pi.data) + b"/" + name for name in ODD]
    for folder, name in zip(odd, ODD, strict=True):
        os.mkdir(folder)
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(b"content of " + name)
    pi.herd.worker()
    assert pi.done().status == Status.SUCCEEDED
    there = contents(pi.data)
    for folder, name in zip(odd, ODD, strict=True):
        os.unlink(folder + b"/" + name)
        back = herder(pi.herd, b"restore", b"--wait", b"--", pi.host.name.encode(), folder)
        assert back.returncode == 0, back.stderr
    assert contents(pi.data) == there


def test_a_source_with_an_odd_name(pi: Machine) -> None:
    odd = pi.data.parent / os.fsdecode(b"-d \xe9 'x'")
    odd.mkdir()
    (odd / "-file").write_text("text")
    pi.herd.worker()
    assert herder(pi.herd, "edit_host", pi.host.name, b"--source=" + os.fsencode(odd)).returncode == 0
    assert pi.done().status == Status.SUCCEEDED
    added = Source.objects.exclude(pk=pi.source.pk).get(host=pi.host)
    assert contents(added.generations.get().path / TREE) == contents(odd)
