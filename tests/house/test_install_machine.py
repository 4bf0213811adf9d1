"""Which machines `make install` refuses, in which words."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from piherder.house import machine
from piherder.house.folder import CLONE

if TYPE_CHECKING:
    from pathlib import Path

GOOD = machine.Machine(frozenset({"debian"}), "arm64", 64, "systemd", True)
PI_OS = 'PRETTY_NAME="Raspbian GNU/Linux 12 (bookworm)"\nID=raspbian\nID_LIKE=debian\nVERSION_ID="12"\n'


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
@pytest.mark.parametrize("family", ["debian", "ubuntu", "raspbian"])
def test_the_debian_family_on_both_architectures_is_welcome(architecture: str, family: str) -> None:
    assert machine.refusal(replace(GOOD, architecture=architecture, family=frozenset({family}))) == ""


@pytest.mark.parametrize(("architecture", "bits"), [("armhf", 32), ("i386", 32), ("armhf", 64), ("arm64", 32)])
def test_32_bits_get_one_sentence_whatever_the_kernel_is(architecture: str, bits: int) -> None:
    said = machine.refusal(replace(GOOD, architecture=architecture, bits=bits))
    assert said.startswith(
        f"PiHerder needs a 64-bit system (amd64 or arm64), and this one is {architecture} with {bits}-bit"
    )
    assert "64-bit image" in said


@pytest.mark.parametrize("change", [{"family": frozenset({"fedora"})}, {"architecture": ""}])
def test_another_system_is_sent_to_the_container_image(change: dict[str, object]) -> None:
    assert "another system; use docker/" in machine.refusal(replace(GOOD, **change))  # type: ignore[arg-type]  # by case


def test_without_systemd_make_run_is_named() -> None:
    assert "use `make run`" in machine.refusal(replace(GOOD, init="tini"))


@pytest.mark.parametrize("target", ["install", "upgrade", "uninstall"])
def test_an_ordinary_user_is_told_the_line(target: str) -> None:
    assert machine.refusal(replace(GOOD, is_root=False), target).endswith(f"start it again with sudo make {target}.")


def test_what_no_sudo_can_change_is_said_first() -> None:
    assert "64-bit" in machine.refusal(replace(GOOD, architecture="armhf", is_root=False))


def test_family_from_os_release() -> None:
    assert machine.os_family(PI_OS) == {"raspbian", "debian"}
    assert machine.os_family('ID="linuxmint"\nID_LIKE="ubuntu debian"\n') == {"linuxmint", "ubuntu", "debian"}
    assert machine.os_family("NAME=x\nVERSION_ID=1\n") == frozenset()


def test_looks_below_a_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(PI_OS)
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/comm").write_text("systemd\n")
    found = machine.look(tmp_path)
    assert (found.family, found.init, found.bits) == (frozenset({"raspbian", "debian"}), "systemd", 64)
    assert found.architecture == machine.dpkg_architecture() != ""


def test_a_root_without_anything_is_no_debian(tmp_path: Path) -> None:
    assert "another system" in machine.refusal(machine.look(tmp_path))


def test_a_system_without_dpkg_has_no_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert machine.dpkg_architecture() == ""


def test_the_plain_python_needs_no_package_of_ours() -> None:
    # -S and -I: neither site packages nor the environment; as on a machine where nothing is set up yet.
    script = str(CLONE / "piherder/house/begin.py")
    done = subprocess.run([sys.executable, "-I", "-S", script, "uninstall", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--purge" in done.stdout
