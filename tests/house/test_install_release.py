"""Releases beside each other: what is copied, how it is named, how one becomes the current one."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from piherder.house import release
from piherder.house.folder import CLONE, Refused
from piherder.house.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with one file of each sort."""
    root = tmp_path / "clone"
    for name in ("jobs/models.py", "jobs/__pycache__/models.pyc", "tests/test_x.py", ".venv/bin/python", ".git/HEAD"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (root / "herder").write_text("#!/bin/sh\n")
    (root / "herder").chmod(0o700)
    return root


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "root/opt").mkdir(parents=True)
    return Layout(tmp_path / "root")


def test_only_what_runs_is_part_of_a_release(clone: Path) -> None:
    assert [each.name for each in release.files(clone)] == ["herder", "jobs/models.py", "pyproject.toml"]


@pytest.mark.parametrize("name", ["docker/.env", "docker/wheels/x.whl"])
def test_the_owners_secrets_and_packages_stay_in_the_clone(clone: Path, name: str) -> None:
    before = release.name(clone)
    (clone / name).parent.mkdir(parents=True)
    (clone / name).write_text("POSTGRES_PASSWORD=secret")
    assert (name in {each.name for each in release.files(clone)}, release.name(clone)) == (False, before)


def test_a_release_of_this_clone_has_all_that_a_start_needs() -> None:
    names = {each.name for each in release.files()}
    units = {f"piherder/house/units/{name}" for name in ("worker.service", "piherder.target", "hardening.conf")}
    assert names >= {"manage.py", "herder", "Makefile", "requirements.txt", "piherder/templates/base.html"} | units
    assert not [name for name in names if name.startswith(("tests", "bench", ".")) or "__pycache__" in name]


def test_the_name_follows_the_content_and_not_the_place(clone: Path, tmp_path: Path) -> None:
    first = release.name(clone)
    assert first.startswith("1.2.3-")
    moved = clone.rename(tmp_path / "elsewhere")
    assert release.name(moved) == first
    (moved / "jobs/models.py").write_text("other")
    assert release.name(moved) != first


def test_a_mode_is_content_too(clone: Path) -> None:
    first = release.name(clone)
    (clone / "herder").chmod(0o600)
    assert release.name(clone) != first


def test_half_a_clone_is_refused(clone: Path) -> None:
    (clone / "pyproject.toml").unlink()
    with pytest.raises(Refused, match="is no complete copy of PiHerder"):
        release.name(clone)


def test_everybody_can_read_it_whatever_the_umask(clone: Path, layout: Layout) -> None:
    before = os.umask(0o077)
    try:
        found = release.put(layout, "piherder", clone)
    finally:
        os.umask(before)
    assert [oct(p.stat().st_mode & 0o777) for p in (found, found / "jobs", found / "herder")] == ["0o755"] * 3
    assert oct((found / "jobs/models.py").stat().st_mode & 0o777) == "0o644"
    assert (found / release.MARK).read_text() == f"piherder\n{layout.settings}\n"


def test_the_same_code_is_put_once_and_its_packages_stay(clone: Path, layout: Layout) -> None:
    found = release.put(layout, "piherder", clone)
    (found / ".venv").mkdir()
    (found / "jobs/models.py").write_text("damaged")
    assert release.put(layout, "piherder", clone) == found
    assert (found / ".venv").is_dir()
    assert (found / "jobs/models.py").read_text() == "jobs/models.py"


def test_a_release_can_be_put_from_itself(clone: Path, layout: Layout) -> None:
    found = release.put(layout, "piherder", clone)
    assert release.put(layout, "piherder", found) == found
    assert release.name(found) == found.name


def test_nothing_is_current_at_first(layout: Layout) -> None:
    assert layout.release is None


def test_switching_is_one_step(clone: Path, layout: Layout) -> None:
    first, second = release.put(layout, "piherder", clone), layout.code / "2"
    second.mkdir()
    for each in (first, second):
        release.switch(layout, each)
        assert (layout.release, os.readlink(layout.current)) == (each, each.name)


def test_only_a_set_up_that_ended_is_complete(clone: Path, layout: Layout) -> None:
    found = release.put(layout, "piherder", clone)
    assert not release.is_complete(found)
    release.finish(found)
    assert release.is_complete(found)


def test_old_releases_go_but_not_the_current_nor_what_is_kept(clone: Path, layout: Layout) -> None:
    made = []
    for number in range(4):
        (clone / "jobs/models.py").write_text(str(number))
        made.append(release.put(layout, "piherder", clone))
    release.switch(layout, made[0])
    (layout.code / "upgrades").mkdir()
    gone = release.forget_others(layout, {made[1]})
    assert sorted(gone) == sorted(path.name for path in made[2:])
    assert set(release.installed(layout)) == set(made[:2])
    assert (layout.code / "upgrades").is_dir()


def test_writing_replaces_a_link_and_follows_none(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / "file").symlink_to(tmp_path / "other")
    (tmp_path / ".file.new").symlink_to(tmp_path / "other")
    release.write(tmp_path / "file", "new", 0o640, (os.geteuid(), os.getegid()))
    assert (tmp_path / "other").read_text() == "mine"
    assert ((tmp_path / "file").read_text(), (tmp_path / "file").is_symlink()) == ("new", False)
    assert oct((tmp_path / "file").stat().st_mode & 0o777) == "0o640"


def test_the_version_is_the_one_of_this_clone() -> None:
    ask = ["sed", "-n", 's/^version = "\\(.*\\)"$/\\1/p', str(CLONE / "pyproject.toml")]
    assert release.version() == subprocess.run(ask, capture_output=True, text=True).stdout.strip()
