"""A restore brings back what was saved, and nothing else changes."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hosts.rsync.outcome import Kind
from tests.hosts.rsync.conftest import AS_NOBODY, NOBODY, needs_root

if TYPE_CHECKING:
    from hosts.rsync.run import Copy
    from tests.hosts.rsync.conftest import Site

pytestmark = needs_root


def save(site: Site, name: bytes = b"a", text: str = "saved") -> bytes:
    path = bytes(site.data) + b"/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(os.fsdecode(path)).write_text(text)
    os.chown(path, 1234, 4321)
    os.chmod(path, 0o4640)
    site.good(site.backup())
    site.files.clear()
    return path


def facts(path: bytes | Path) -> tuple[int, int, int]:
    found = os.lstat(path)
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


@pytest.mark.parametrize("name", [b"deep/caf\xe9", b"-n", b"two\nlines", b"*", b"#comment", b"; x", b"sp ace "])
def test_one_file_comes_back_with_owner_and_mode(site: Site, name: bytes) -> None:  # case C13
    path = save(site, name)
    (site.data / "other").write_text("not saved")
    os.unlink(path)
    site.good(site.restore(name, to="data"))
    assert Path(os.fsdecode(path)).read_text() == "saved"
    assert facts(path) == (1234, 4321, 0o4640)
    assert (site.data / "other").exists()


def test_one_file_leaves_the_destination_folder_itself_alone(site: Site) -> None:
    save(site, b"a")
    (site.base / "restored").mkdir(mode=0o711)
    site.good(site.restore(b"a"))
    assert facts(site.base / "restored") == (0, 0, 0o711)
    assert [file.name for file in site.files] == [b"a"]


def test_a_folder(site: Site) -> None:
    save(site, b"photos/2020/a")
    save(site, b"music/b")
    site.good(site.restore(b"photos"))
    assert sorted(path.name for path in (site.base / "restored").rglob("*")) == ["2020", "a", "photos"]


def test_everything_to_a_path_that_does_not_exist_yet(site: Site) -> None:
    save(site, b"deep/a")
    site.good(site.restore(to="new/er/place"))
    assert (site.base / "new/er/place/deep/a").read_text() == "saved"


def test_links_and_holes_come_back(site: Site) -> None:  # cases C10, C12
    with (site.data / "image").open("wb") as file:
        file.truncate(50_000_000)
    os.link(site.data / "image", site.data / "second")
    site.good(site.backup())
    site.good(site.restore())
    found = (site.base / "restored/second").stat()
    assert (found.st_nlink, found.st_blocks) == (2, 0)


def test_nothing_is_deleted_unless_asked(site: Site) -> None:
    save(site)
    (site.data / "newer").write_text("")
    site.good(site.restore(to="data"))
    assert (site.data / "newer").exists()
    site.good(site.restore(to="data", delete=True))
    assert not (site.data / "newer").exists()


def test_dry_run_says_what_would_change_and_changes_nothing(site: Site) -> None:
    save(site)
    (site.data / "a").write_text("changed since")
    (site.data / "newer").write_text("")
    site.good(site.restore(to="data", dry_run=True, delete=True))
    assert (site.data / "a").read_text() == "changed since"
    assert {file.name: file.deleted for file in site.files if file.name != b"./"} == {b"a": False, b"newer": True}


@pytest.mark.parametrize("name", ["w*ld", "[x]", "q?"])
def test_a_destination_with_wildcards_is_that_folder_and_no_other(site: Site, name: str) -> None:
    save(site)
    for folder in (name, "world", "x", "qq"):
        (site.base / folder).mkdir()
    site.good(site.restore(to=name))
    assert [path.parent.name for path in site.base.glob("*/a") if path.parent.name not in ("data", "1")] == [name]


def test_a_missing_destination_with_wildcards_is_refused_and_makes_nothing(site: Site) -> None:
    save(site)
    (site.base / "world").mkdir()
    before = sorted(os.listdir(site.base))
    assert site.verdict(site.restore(to="w*ld")).kind is Kind.FAILED
    assert (sorted(os.listdir(site.base)), os.listdir(site.base / "world")) == (before, [])


@dataclass
class AsNobody:
    """The herder's side as an ordinary user."""

    copy: Copy

    def argv(self) -> list[bytes]:
        return [*(word.encode() for word in AS_NOBODY), *self.copy.argv()]

    def stdin(self) -> bytes:
        return self.copy.stdin()


@pytest.fixture
def nobodys(site: Site, key: Path) -> Site:
    """The agent answers its owner only, so this user gets a key file and a config that names it."""
    home = site.base / "nobody"
    home.mkdir(mode=0o700)
    shutil.copy(key, home / "key")
    config = (home / "config", site.remote.ssh_config.read_text())
    config[0].write_text(config[1].replace(str(site.agent.public_keys[0]), str(home / "key")))
    site.agent.folder.chmod(0o755)
    for path in (home, home / "key", site.store):
        os.chown(path, NOBODY, NOBODY)
    site.remote = replace(site.remote, ssh_config=config[0])
    return site


def test_owners_and_devices_survive_a_herder_that_is_not_root(nobodys: Site) -> None:
    (nobodys.data / "a").write_text("a")
    os.chown(nobodys.data / "a", 1234, 4321)
    (nobodys.data / "a").chmod(0o4755)
    os.mknod(nobodys.data / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    nobodys.good(AsNobody(nobodys.backup(fake_super=True)))
    assert facts(nobodys.store / "1/a")[:2] == (NOBODY, NOBODY)
    assert stat.S_ISREG((nobodys.store / "1/null").stat().st_mode)
    nobodys.good(AsNobody(nobodys.restore(fake_super=True)))
    assert facts(nobodys.base / "restored/a") == (1234, 4321, 0o4755)
    assert (nobodys.base / "restored/null").stat().st_rdev == os.makedev(1, 3)


def test_a_generation_of_an_ordinary_user_can_be_restored_by_root(nobodys: Site) -> None:
    (nobodys.data / "a").write_text("a")
    os.chown(nobodys.data / "a", 1234, 4321)
    nobodys.good(AsNobody(nobodys.backup(fake_super=True)))
    nobodys.good(nobodys.restore(fake_super=True))
    assert facts(nobodys.base / "restored/a")[:2] == (1234, 4321)
