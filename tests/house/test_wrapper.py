"""`./herder`, the Makefile and the script of the continuous checks."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from piherder import env
from piherder.house import folder
from piherder.house.folder import CLONE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone without a virtual environment."""
    shutil.copy(CLONE / "herder", tmp_path)
    return tmp_path


def call(*command: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = env.child_environment(**changes)
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")


def test_without_a_set_up_it_says_what_to_do(clone: Path) -> None:
    done = call(clone / "herder", "hosts")
    assert done.returncode == 1
    assert done.stderr == 'PiHerder is not set up in this clone yet: run "make run" first.\n'


def test_passes_its_arguments_on_unchanged(clone: Path) -> None:
    python = clone / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\numask\nexit 3\n')
    python.chmod(0o755)
    done = call(clone / "herder", "run_job", "backup", "--param", "a b=c  d")
    assert done.stdout.split("\n")[1:5] == ["<run_job>", "<backup>", "<--param>", "<a b=c  d>"]
    assert done.stdout.splitlines()[-1] == "0077"
    assert done.returncode == 3


def test_works_through_a_link_from_elsewhere(clone: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere"
    link.symlink_to(clone / "herder")
    assert "not set up" in call(link, "hosts").stderr


def install_here(clone: Path, user: str, settings: Path) -> None:
    """What `make install` leaves beside the script."""
    (clone / ".installed").write_text(f"{user}\n{settings}\n")


def test_an_installed_one_reads_its_settings(clone: Path, tmp_path: Path) -> None:
    python = clone / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$PIHERDER_ENV_FILE" "$1"\n')
    python.chmod(0o755)
    (tmp_path / "piherder.env").touch()
    install_here(clone, getpass.getuser(), tmp_path / "piherder.env")
    assert call(clone / "herder", "hosts").stdout == f"{tmp_path}/piherder.env {clone}/manage.py\n"


def test_an_installed_one_whose_settings_are_gone_says_so(clone: Path) -> None:
    install_here(clone, getpass.getuser(), clone / "gone")
    assert call(clone / "herder", "hosts").stderr.endswith('cannot be read: run "make install" again.\n')


def test_an_installed_one_whose_python_is_gone_says_how_to_mend_it(clone: Path) -> None:
    (clone / "piherder.env").touch()
    install_here(clone, getpass.getuser(), clone / "piherder.env")
    assert f'run "cd {clone} && sudo make install"' in call(clone / "herder", "hosts").stderr


def test_root_becomes_the_user_of_the_installation(clone: Path) -> None:
    python = clone / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nid -un; echo "$HOME"; shift; echo "$@"\n')
    (clone / "piherder.env").touch()
    install_here(clone, "nobody", clone / "piherder.env")
    for path in (*clone.rglob("*"), clone, *clone.parents[:3]):  # pytest's folders are for root alone
        path.chmod(0o755)
    done = call(clone / "herder", "run_job", "a b")
    assert done.stdout.splitlines() == ["nobody", "/nonexistent", "run_job a b"]


def test_another_venv_can_be_named(clone: Path, tmp_path: Path) -> None:
    python = tmp_path / "elsewhere/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho elsewhere\n")
    python.chmod(0o755)
    assert call(clone / "herder", "hosts", PIHERDER_VENV=str(tmp_path / "elsewhere")).stdout == "elsewhere\n"


@pytest.mark.parametrize("command", ["migrate", "flush"])
def test_the_database_is_not_changed_under_a_running_stack(tmp_path: Path, command: str) -> None:
    with folder.only_one(tmp_path):
        done = call(CLONE / "herder", command, PIHERDER_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "PiHerder is running on this data" in done.stderr
    assert not (tmp_path / "db.sqlite3").exists()


def test_make_alone_lists_the_targets() -> None:
    done = call("make", "-C", CLONE, "--no-print-directory")
    assert done.returncode == 0
    for target in ("bench", "clean", "demo", "install", "lint", "run", "test", "uninstall", "upgrade"):
        assert f"make {target} " in done.stdout


def test_make_without_python_names_what_to_install() -> None:
    done = call("make", "-C", CLONE, "run", "PYTHON=/nowhere/python3")
    assert done.returncode != 0
    assert "Python 3 is missing" in done.stderr


@pytest.mark.parametrize("script", ["herder", ".ci/run"])
def test_scripts_are_executable_and_well_formed(script: str) -> None:
    assert os.access(CLONE / script, os.X_OK)
    assert call("bash", "-n", CLONE / script).returncode == 0


def test_data_folders_are_no_business_of_make_clean() -> None:
    done = call("make", "-C", CLONE, "-n", "clean")
    removed = [line for line in done.stdout.splitlines() if line.startswith("rm ")]
    assert removed == [
        "rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build",
    ]
