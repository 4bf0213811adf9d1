"""Ways to a host, rights on it, and what a live system does during a copy."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hosts.models import Source
from hosts.store.layout import TREE
from jobs.models import Failure, Status
from tests.hosts.rsync.conftest import AS_NOBODY, needs_root

from .conftest import contents, meanwhile, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import MakePi, Pi


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any login can reach."""
    folder = Path(tempfile.mkdtemp(prefix="ph-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def ordinary(make_pi: MakePi, open_folder: Path) -> Pi:
    """A host whose login is nobody, with something that nobody may not read."""
    pi = make_pi(force_command=f'exec {" ".join(AS_NOBODY)} sh -c "$SSH_ORIGINAL_COMMAND"')
    pi.edit(copy_lock=str(open_folder))
    for name, mode in (("open", 0o644), ("secret", 0o600)):
        (open_folder / name).write_text(name)
        (open_folder / name).chmod(mode)
    Source.objects.filter(pk=pi.source.pk).update(path=str(open_folder))
    return pi


@needs_root
def test_what_an_ordinary_login_may_not_read_is_listed_and_the_rest_is_kept(ordinary: Pi, open_folder: Path) -> None:
    job = ordinary.run("backup")
    kept = ordinary.good()[0]
    assert (job.status, "1 with warnings" in job.summary) == (Status.SUCCEEDED, True)
    assert os.listdir(kept.path / TREE) == ["open"]
    assert kept.warnings[1:] == [f"{open_folder}/secret"]
    assert "may not read 1 of the names" in kept.warnings[0]
    assert "may not read 1 of the names" in said(job)


@needs_root
def test_a_restore_by_an_ordinary_login_says_that_owners_are_missing(ordinary: Pi, open_folder: Path) -> None:
    ordinary.run("backup")
    (open_folder / "back").mkdir()
    (open_folder / "back").chmod(0o777)
    job = ordinary.run("restore", source=str(open_folder), path="open", to_path=f"{open_folder}/back")
    assert job.summary.endswith("Owners could not be set: root is not root there and has no sudo for rsync.")
    assert (open_folder / "back" / "open").stat().st_uid != 0


def test_a_file_that_vanishes_is_a_note_and_the_backup_is_good(pi: Pi) -> None:  # case C01
    pi.slow(kib=8000)
    with meanwhile(pi.is_copying, (pi.data / "sub/file 7").unlink):
        job = pi.run("backup")
    assert (job.status, "1 with warnings" in job.summary) == (Status.SUCCEEDED, True)
    assert (pi.good()[0].rsync_code, "1 file on pi1 vanished" in pi.good()[0].warnings[0]) == (24, True)
    assert contents(pi.good()[0].path / TREE) == contents(pi.data)


def test_the_bandwidth_limit_is_honoured(pi: Pi) -> None:
    pi.slow(kib=1000, megabytes=3)
    Source.objects.filter(pk=pi.source.pk).update(excludes=["/sparse"])
    job = pi.run("backup")
    assert job.result["sources"][0]["seconds"] > 2


def test_commands_and_rsync_pass_the_jump_host_alike(make_pi: MakePi) -> None:
    gate, inner = make_pi("gate"), make_pi("inner")
    inner.edit(jump=gate.host)
    assert inner.run("backup").error == ""
    assert contents(inner.good()[0].path / TREE) == contents(inner.data)
    assert gate.sshd.log.read_text().count("Accepted publickey") == 2


def test_a_second_jump_host_is_refused_in_words_by_rsync(make_pi: MakePi) -> None:
    outer, gate, inner = make_pi("outer"), make_pi("gate"), make_pi("inner")
    gate.edit(jump=outer.host)
    inner.edit(jump=gate.host)
    job = inner.run("backup")
    assert (job.failure, "gate has a jump host itself" in job.error) == (Failure.REFUSED, True)


def test_a_lock_folder_that_is_no_plain_path_is_refused_in_words(pi: Pi) -> None:
    pi.edit(copy_lock="/tmp/it's")
    job = pi.run("backup")
    assert (job.failure, job.error.startswith("rsync cannot be pointed at pi1: ")) == (Failure.REFUSED, True)
