"""Whose disk it is and whose generations: told by what is written on it, not by names that anybody may give."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from hosts.adopt import adopt
from hosts.former import former_ids, note_former
from hosts.models import BackupRoot, Generation, Host, HostKey
from hosts.store import plain
from hosts.store.layout import INFO, MANIFEST
from hosts.store.root import MARKER, RootUnusable, check, write_durably
from tests.commands import herder
from tests.factories import make_host
from tests.hosts.disk import give_away, lay, make_root

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(tmp_path: Path, settings: Settings) -> BackupRoot:
    settings.DATA = tmp_path / "data"
    settings.DATA.mkdir()
    return make_root(tmp_path / "root", is_default=True)


@pytest.fixture
def host() -> Host:
    found = make_host("pi1")
    HostKey.objects.create(host=found, key_type="ssh-ed25519", public="AAAA", fingerprint="SHA256:mine")
    return found


# --- generations of another installation ---------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [(), ("SHA256:other",)])
def test_a_name_alone_proves_nothing(root: BackupRoot, host: Host, keys: tuple[str, ...]) -> None:
    path = lay(root.path, "pi1", "/srv/data", install_id="another", host_keys=keys)
    done = adopt(root)
    assert (done.attached, done.passed_over, Generation.objects.count()) == (0, 1, 0)
    assert done.lines == [
        f"pi1:/srv/data {path.name} was passed over: another installation made it of a host that is no more than "
        "called pi1, too; if that is the same machine, add --trust-names."
    ]
    assert adopt(root, trust_names=True).attached == 1
    assert adopt(root).there == 1, "what a person attached stays attached"


def test_a_key_that_we_know_proves_the_machine(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data", install_id="another", host_keys=("SHA256:old", "SHA256:mine"))
    assert adopt(root).attached == 1


def test_a_key_of_another_host_does_not(root: BackupRoot, host: Host) -> None:
    make_host("pi2")
    lay(root.path, "pi2", "/srv/data", install_id="another", host_keys=("SHA256:mine",))
    assert adopt(root).passed_over == 1


def test_what_was_made_before_a_restore_elsewhere_is_ours(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data", install_id="another")
    note_former("another")
    assert adopt(root).attached == 1


def test_the_command_takes_names_when_told(root: BackupRoot, host: Host) -> None:
    give_away(Path(root.path))
    lay(root.path, "pi1", "/srv/data", install_id="another")
    words = ("adopt_generations", "--root", root.path, "--from-other-installation")
    ran = herder(*words)
    assert (ran.code, Generation.objects.count()) == (1, 0)
    assert "--trust-names" in ran.err
    assert herder("adopt_generations", "--trust-names").code == 0
    assert Generation.objects.count() == 1


# --- a disk of the installation that this one was restored from ------------------------------------------------------


def mark(root: BackupRoot, install_id: str, root_id: str = "") -> None:
    """Another installation's marker on the same disk."""
    marker = {"format": 1, "install_id": install_id, "root_id": root_id or root.marker.hex}
    write_durably(Path(root.path) / MARKER, json.dumps(marker).encode())


def test_a_disk_from_before_a_restore_becomes_ours_and_is_no_longer_theirs(root: BackupRoot, host: Host) -> None:
    mark(root, "before")
    with pytest.raises(RootUnusable, match="belongs to another installation"):
        adopt(root)
    note_former("before")
    note_former("another")
    assert former_ids() == {"another", "before"}
    adopt(root, dry_run=True)
    assert check(Path(root.path), "before", root.marker.hex).usable
    adopt(root)
    assert check(Path(root.path), settings.PIHERDER_INSTALL_ID, root.marker.hex).usable
    assert "belongs to another installation" in check(Path(root.path), "before", root.marker.hex).problem


def test_another_disk_from_before_a_restore_is_not_mistaken(root: BackupRoot) -> None:
    mark(root, "before", "f" * 32)
    note_former("before")
    with pytest.raises(RootUnusable, match="Another backup disk is mounted"):
        adopt(root)


# --- things in the place of files ------------------------------------------------------------------------------------


def nested(path: Path) -> None:
    path.write_bytes(b"[" * 200_000)


def huge(path: Path) -> None:
    with path.open("wb") as handle:
        handle.truncate(plain.LARGEST + 1)


def link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))


PLACED = [nested, huge, link, device, os.mkfifo, Path.mkdir]


@pytest.mark.parametrize("place", PLACED)
@pytest.mark.parametrize("name", [INFO, MANIFEST])
def test_one_odd_file_costs_one_generation(
    root: BackupRoot, host: Host, name: str, place: Callable[[Path], object]
) -> None:
    path = lay(root.path, "pi1", "/srv/data", 1)
    lay(root.path, "pi1", "/srv/data", 2)
    (path / name).unlink()
    place(path / name)
    done = adopt(root)
    assert (done.attached, done.passed_over) == (1, 1)
    assert done.lines[0].startswith(f"pi1/srv-data/{path.name} was passed over: ")
    assert "damaged" in done.lines[0]
    assert "\n" not in done.lines[0]


def test_a_record_without_end_is_not_read(root: BackupRoot, host: Host) -> None:
    path = lay(root.path, "pi1", "/srv/data")
    with (path / INFO).open("ab") as handle:
        handle.write(b" " * plain.LARGEST)
    assert adopt(root).lines[0].endswith("generation.json is damaged: it has more than 4 MiB.")


@pytest.mark.parametrize("place", PLACED)
def test_an_odd_marker_is_told(root: BackupRoot, place: Callable[[Path], object]) -> None:
    marker = Path(root.path) / MARKER
    marker.unlink()
    place(marker)
    assert check(marker.parent, settings.PIHERDER_INSTALL_ID).problem.startswith(
        f"The marker of the backup root {root.path} is damaged"
    )


@pytest.mark.parametrize(("name", "value"), [("install_id", ["x"]), ("host_keys", [1]), ("host_keys", ["k"] * 1001)])
def test_who_made_it_must_be_readable(root: BackupRoot, host: Host, name: str, value: object) -> None:
    path = lay(root.path, "pi1", "/srv/data")
    record = json.loads((path / INFO).read_text())
    (path / INFO).write_text(json.dumps(record | {name: value}))
    assert adopt(root).lines[0].endswith(f"generation.json is damaged: it holds no usable {name}.")
