"""The set-up of `.venv` for real, in a small clone whose packages come from a folder: no network is needed."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from piherder import env
from piherder.house import packages, prepare

METADATA = "Metadata-Version: 2.1\nName: tiny\nVersion: {}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(folder: Path, version: str) -> None:
    """A package of one empty module, as pip wants it."""
    folder.mkdir(exist_ok=True)
    info = f"tiny-{version}.dist-info"
    files = {"tiny.py": "", f"{info}/METADATA": METADATA.format(version), f"{info}/WHEEL": WHEEL}
    with zipfile.ZipFile(folder / f"tiny-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))


class Clone:
    """A clone with the set-up alone; its system packages are taken as there."""

    def __init__(self, root: Path) -> None:
        self.root, self.wheels = root / "clone", root / "wheels"
        house = self.root / "piherder/house"
        house.mkdir(parents=True)
        shutil.copy(prepare.__file__, house)
        (house / "packages.py").write_text("")
        build_wheel(self.wheels, "1.0")
        self.require("tiny==1.0")

    def require(self, line: str) -> None:
        (self.root / "requirements.txt").write_text(f"{line}\n")
        (self.root / "requirements-dev.txt").write_text("-r requirements.txt\n")

    def set_up(self, purpose: str = "run") -> subprocess.CompletedProcess[str]:
        script = str(self.root / "piherder/house/prepare.py")
        environment = env.child_environment(
            PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.wheels), PIP_CONFIG_FILE=os.devnull
        )
        command = [sys.executable, script, "--for", purpose, "--exit", "--port", "1"]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    def version(self) -> str:
        """The installed version of the package, asked of the virtual environment itself."""
        ask = "from importlib.metadata import version; print(version('tiny'))"
        python = self.root / ".venv/bin/python"
        return subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone that was set up once."""
    clone = Clone(tmp_path_factory.mktemp("made"))
    done = clone.set_up()
    assert done.returncode == 0, done.stderr
    assert "Making .venv" in done.stdout
    return clone


@pytest.fixture
def clone(made: Clone) -> Clone:
    """The clone as the first set-up left it."""
    made.require("tiny==1.0")
    assert made.set_up().returncode == 0
    return made


def test_installs_from_where_the_users_pip_configuration_points(clone: Clone) -> None:
    assert clone.version() == "1.0"


def test_a_second_set_up_has_nothing_to_do(clone: Clone) -> None:
    assert clone.set_up().stdout == ""


def test_changed_requirements_are_installed_into_the_same_environment(clone: Clone) -> None:
    build_wheel(clone.wheels, "2.0")
    clone.require("tiny==2.0")
    done = clone.set_up()
    assert "Installing the Python packages" in done.stdout
    assert "Making" not in done.stdout
    assert clone.version() == "2.0"


def test_the_development_set_brings_the_plain_one(clone: Clone) -> None:
    clone.require("tiny>=1.0")
    assert clone.set_up("test").returncode == 0
    assert clone.set_up("run").stdout == ""


def test_an_environment_that_was_cut_off_while_it_was_made_is_made_anew(clone: Clone) -> None:
    (clone.root / ".venv/bin/python").unlink()
    done = clone.set_up()
    assert "Making .venv" in done.stdout
    assert clone.version() == "1.0"


def test_an_installation_that_was_cut_off_is_taken_up_again(clone: Clone) -> None:
    (clone.root / ".venv/.requirements.txt.sha256").unlink()
    assert "Installing" in clone.set_up().stdout
    assert clone.set_up().stdout == ""


def test_what_cannot_be_fetched_is_told_in_one_sentence_and_tried_again(clone: Clone) -> None:
    clone.require("no-such-package==1.0")
    for _ in range(2):
        done = clone.set_up()
        assert done.returncode == 1
        assert done.stderr.startswith("The Python packages could not be fetched: no package index answers; ")
        assert len(done.stderr.splitlines()) == 1
    assert (clone.root / ".venv/pip.log").read_text()


def test_a_progress_line_counts_seconds_on_a_terminal(tmp_path: Path) -> None:
    own, other = pty.openpty()
    log, house = str(tmp_path / "log"), str(Path(prepare.__file__).parent)
    code = (
        f"import sys; sys.path.insert(0, {house!r}); import prepare; from pathlib import Path\n"
        f"prepare.run_with_line(['sleep', '0.1'], Path({log!r}), 'Working')"
    )
    try:
        assert subprocess.run([sys.executable, "-c", code], stdout=other).returncode == 0
        assert b"\rWorking: 0 s" in os.read(own, 4000)
    finally:
        os.close(own)
        os.close(other)


def fake_sudo(folder: Path, code: int) -> str:
    """A folder for PATH whose sudo answers with `code`."""
    (folder / "sudo").write_text(f"#!/bin/sh\nexit {code}\n")
    (folder / "sudo").chmod(0o755)
    return str(folder)


ASK = """
import os, sys
sys.stdin = open(os.devnull)
exec(sys.argv[1])
try:
    print(root_prefix(["rsync", "acl"]))
except Refused as refusal:
    print(refusal)
"""


def how_to_become_root(path: str) -> str:
    """What an ordinary user without a terminal is told, with `path` as PATH."""
    script = Path(packages.__file__).read_text().replace(f'"{packages.SBIN}"', '"/nowhere"').split("def main()")[0]
    user = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    command = [*user, "/usr/bin/python3", "-c", ASK, script]
    return subprocess.run(command, env={"PATH": path}, cwd="/", capture_output=True, text=True).stdout.strip()


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder that the unprivileged user reaches: pytest's own are closed to it."""
    folder = Path("/tmp") / f"piherder-sudo-{os.getpid()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    return folder


def test_sudo_is_used_where_it_asks_nothing(open_folder: Path) -> None:
    try:
        assert how_to_become_root(fake_sudo(open_folder, 0)) == f"['{open_folder}/sudo']"
    finally:
        shutil.rmtree(open_folder)


def test_a_sudo_that_wants_a_password_is_none_without_a_terminal(open_folder: Path) -> None:
    try:
        said = how_to_become_root(fake_sudo(open_folder, 1))
        assert said == "As root, install these packages and start again: apt-get install rsync acl"
    finally:
        shutil.rmtree(open_folder)
