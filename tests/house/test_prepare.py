"""Which machines are refused, when `.venv` is made or filled again, and what a failure says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from piherder.house import prepare


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_supported_machines(version: tuple[int, int], machine: str) -> None:
    assert prepare.unsupported(version, True, machine, True) == ""


@pytest.mark.parametrize(
    ("version", "is_64bit", "machine", "has_apt", "word"),
    [
        ((3, 9), True, "x86_64", True, "this is 3.9"),
        ((3, 14), True, "x86_64", True, "this is 3.14"),
        ((3, 11), False, "aarch64", True, "32-bit programs"),
        ((3, 11), True, "armv7l", True, "armv7l"),
        ((3, 11), True, "x86_64", False, "no apt-get"),
    ],
)
def test_other_machines_are_refused_in_one_sentence(
    version: tuple[int, int], is_64bit: bool, machine: str, has_apt: bool, word: str
) -> None:
    said = prepare.unsupported(version, is_64bit, machine, has_apt)
    assert word in said
    assert said.endswith(".")
    assert "\n" not in said


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "requirements.txt").write_text("")
    (tmp_path / "requirements-dev.txt").write_text("-r requirements.txt\n")
    monkeypatch.setattr(prepare, "CLONE", tmp_path)
    monkeypatch.setattr(prepare, "VENV", tmp_path / ".venv")
    return tmp_path


def stamp(clone: Path, name: str) -> None:
    (clone / ".venv").mkdir(exist_ok=True)
    prepare.stamp_file(name).write_text(prepare.stamp_of(clone / name, sys.version.split()[0]))


def test_a_changed_requirement_calls_for_a_new_installation(clone: Path) -> None:
    assert not prepare.is_stamped("requirements.txt")
    stamp(clone, "requirements.txt")
    assert prepare.is_stamped("requirements.txt")
    (clone / "requirements.txt").write_text("rich~=15.0\n")
    assert not prepare.is_stamped("requirements.txt")


def test_the_development_set_covers_the_plain_one_and_not_the_other_way_round(clone: Path) -> None:
    stamp(clone, "requirements.txt")
    assert not prepare.is_stamped("requirements-dev.txt")
    stamp(clone, "requirements-dev.txt")
    prepare.stamp_file("requirements.txt").unlink()
    assert prepare.is_stamped("requirements.txt")


def test_a_change_in_the_included_file_counts_for_the_development_set(clone: Path) -> None:
    stamp(clone, "requirements-dev.txt")
    (clone / "requirements.txt").write_text("rich~=15.0\n")
    assert not prepare.is_stamped("requirements-dev.txt")


def test_another_python_calls_for_a_new_installation(clone: Path) -> None:
    file = clone / "requirements.txt"
    assert prepare.stamp_of(file, "3.11.2") != prepare.stamp_of(file, "3.12.1")


def test_an_interrupted_venv_is_noticed(clone: Path) -> None:
    assert not prepare.venv_works()
    python = clone / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    assert not prepare.venv_works()


def test_a_venv_of_another_python_is_noticed(clone: Path) -> None:
    python = clone / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 3.8.1\n")
    python.chmod(0o755)
    assert not prepare.venv_works()


OFFLINE = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/django/
ERROR: Could not find a version that satisfies the requirement Django~=5.2.0 (from versions: none)
ERROR: No matching distribution found for Django~=5.2.0
"""


def test_an_offline_machine_is_told_so() -> None:
    assert "no package index answers" in prepare.pip_failure(OFFLINE)


def test_another_failure_of_pip_shows_its_first_error() -> None:
    said = prepare.pip_failure("noise\nERROR: Cannot install celery and redis==9\nERROR: ResolutionImpossible\n")
    assert said == "The Python packages could not be installed: ERROR: Cannot install celery and redis==9"


def test_a_command_writes_its_log_and_tells_its_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    assert prepare.run_with_line(["sh", "-c", "echo out; echo err >&2"], log, "Working")
    assert log.read_text() == "out\nerr\n"
    assert "Working: 0 s" in capsys.readouterr().out
    assert not prepare.run_with_line(["false"], log, "Working")


def test_runs_as_a_plain_script_without_the_virtual_environment() -> None:
    code = "import runpy, sys; sys.argv = ['prepare.py', '--help']; runpy.run_path(sys.argv[1], run_name='__main__')"
    script = code.replace("sys.argv[1]", repr(prepare.__file__))
    done = subprocess.run(["/usr/bin/python3", "-I", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--for" in done.stdout


def test_a_missing_system_package_set_up_stops_the_rest(tmp_path: Path) -> None:
    (tmp_path / "prepare.py").write_text(Path(prepare.__file__).read_text())
    (tmp_path / "packages.py").write_text("import sys; sys.exit(7)\n")
    done = subprocess.run([sys.executable, tmp_path / "prepare.py", "--for", "run"], capture_output=True, text=True)
    assert done.returncode == 7
