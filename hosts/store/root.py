"""A backup root: the marker that proves the right disk is mounted, and what its filesystem can and cannot keep."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hosts.store.paths import StoreError, encode_name, to_text
from hosts.store.plain import NotPlain, read_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MARKER, TRASH = ".piherder-root.json", ".trash"
_UNSUPPORTED = frozenset(
    {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK, errno.EXDEV, errno.EILSEQ}
)
"""Error numbers by which a filesystem says that it cannot do a thing; a full or broken disk says others."""
_OCTAL = re.compile(rb"\\([0-7]{3})")
_MINIMAL_ACL = struct.pack("<IHHIHHIHHI", 2, 1, 6, 0xFFFFFFFF, 4, 4, 0xFFFFFFFF, 32, 0, 0xFFFFFFFF)
"""An access list of owner, group and others in the kernel's form (linux/posix_acl_xattr.h, version 2)."""


class RootUnusable(StoreError):
    """A backup root that must not be written to; the text is one plain sentence."""


@dataclass(frozen=True, slots=True)
class RootState:
    """What the marker says. `problem` is empty when the root may be used."""

    path: Path
    problem: str = ""
    install_id: str = ""
    root_id: str = ""

    @property
    def usable(self) -> bool:
        """Whether backups may be written here."""
        return not self.problem

    def require(self) -> None:
        """Raise RootUnusable with the problem, if there is one."""
        if self.problem:
            raise RootUnusable(self.problem)


def create_marker(root: Path, install_id: str, root_id: str | None = None) -> str:
    """Mark an existing folder as a backup root of this installation and return its root id (kept when it has one).

    Raises RootUnusable when the folder is missing, cannot be written or carries another installation's marker.
    """
    if not root.is_dir():
        raise RootUnusable(f"The backup root {_shown(root)} is not a folder; create it or mount its disk first.")
    if os.path.lexists(root / MARKER):
        state = check(root, install_id)
        state.require()
        return state.root_id
    root_id = root_id or secrets.token_hex(8)
    try:
        (root / TRASH).mkdir(mode=0o700, exist_ok=True)  # now, because on a full disk it could not be made any more
        write_durably(
            root / MARKER, json.dumps({"format": 1, "install_id": install_id, "root_id": root_id}).encode() + b"\n"
        )
    except OSError as error:
        raise RootUnusable(f"The backup root {_shown(root)} cannot be written: {error.strerror}.") from error
    return root_id


def closing_name(root_id: str) -> str:
    """Name of the file by which rsync is kept out of a root wherever it meets it; nobody else's file is called so."""
    return f".piherder-root-{root_id}"


def close(root: Path, root_id: str) -> None:
    """Put that file into a root that lacks it. Raises RootUnusable when it cannot be written."""
    path = root / closing_name(root_id)
    if path.exists():
        return
    try:
        write_durably(path, b"# A backup root of PiHerder: its own copies leave it out.\n- *\n")
        path.chmod(0o644)  # whoever may read the generations must be able to read this
    except OSError as error:
        raise RootUnusable(f"The backup root {_shown(root)} cannot be written: {error.strerror}.") from error


def check(root: Path, install_id: str, root_id: str | None = None) -> RootState:
    """Read the marker; writes nothing. A given `root_id` must match: two disks of one installation are told apart."""
    try:
        found = json.loads(read_plain(root / MARKER))
        owner, own_id = str(found["install_id"]), str(found["root_id"])
    except (FileNotFoundError, NotADirectoryError):
        return RootState(
            root, f"The backup disk is not mounted: {_shown(root)} has no marker; mount it, then try again."
        )
    except OSError as error:
        return RootState(root, f"The marker of the backup root {_shown(root)} cannot be read: {error.strerror}.")
    except (ValueError, KeyError, TypeError, RecursionError, NotPlain):
        return RootState(
            root, f"The marker of the backup root {_shown(root)} is damaged; look at {MARKER} before using it."
        )
    if owner != install_id:
        text = (
            f"The backup root {_shown(root)} belongs to another installation; nothing was written. If it is this "
            "herder's from before it was restored: ./herder adopt_generations"
        )
        return RootState(root, text, owner, own_id)
    if root_id is not None and own_id != root_id:
        return RootState(root, f"Another backup disk is mounted at {_shown(root)}; mount the right one.", owner, own_id)
    return RootState(root, "", owner, own_id)


def write_durably(path: Path, data: bytes) -> None:
    """Write a small file so that after a power cut there is the old one or the new one. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Space:
    """Free bytes and inodes for this process; None where the filesystem keeps no such number (btrfs: inodes; ramfs:
    both).
    """

    free_bytes: int | None
    free_inodes: int | None


def space_left(root: Path) -> Space:
    """What is free on the root's filesystem. Raises OSError."""
    found = os.statvfs(root)
    free_bytes = found.f_bavail * found.f_frsize if found.f_blocks else None
    return Space(free_bytes, found.f_favail if found.f_files else None)


def too_little_space(space: Space, min_bytes: int, min_inodes: int) -> str:
    """A sentence when less than the minimum is free, else an empty one. Unknown numbers do not stop a backup."""
    if space.free_bytes is not None and space.free_bytes < min_bytes:
        return f"The backup disk has {space.free_bytes >> 20} MiB free, less than {min_bytes >> 20}; free some space."
    if space.free_inodes is not None and space.free_inodes < min_inodes:
        return f"The backup disk has room for {space.free_inodes} more files, less than {min_inodes}; free some space."
    return ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a root's filesystem did when it was asked to. None means that it could not be found out."""

    hard_links: bool
    symlinks: bool
    rename: bool
    user_xattrs: bool
    acls: bool
    sparse: bool
    case_sensitive: bool
    any_name: bool
    owners: bool | None
    filesystem: str
    free_bytes: int | None
    free_inodes: int | None
    on_system_disk: bool | None
    removable_or_sd_card: bool | None

    def refusals(self) -> tuple[str, ...]:
        """Sentences for what makes the root unusable."""
        fs = self.filesystem or "unknown"
        needs = (
            (self.hard_links, "hard links, so every generation would take the full space"),
            (self.rename, "renaming a folder, so a finished backup could not be told from a broken one"),
        )
        return tuple(
            f"The filesystem ({fs}) lacks {what}; use a disk with ext4, xfs or btrfs."
            for there, what in needs
            if not there
        )

    def lost_features(self, *, fake_super: bool = False) -> tuple[str, ...]:
        """Sentences for what backups on this root lose. `fake_super`: owners are kept in xattrs, because we are not
        root.
        """
        lost = (
            (self.symlinks, "Symbolic links are lost."),
            (
                self.user_xattrs,
                "Extended attributes are lost"
                + (", and owners, modes and device files with them." if fake_super else "."),
            ),
            (self.acls or fake_super, "Access lists (ACLs) are lost."),
            (self.owners is not False or fake_super, "Owners are lost: the disk does not let us set them."),
            (self.sparse, "Sparse files take their full size."),
            (self.case_sensitive, "Names that differ only in upper and lower case overwrite each other."),
            (self.any_name, "Files whose names are not UTF-8 cannot be stored."),
        )
        return tuple(sentence for there, sentence in lost if not there)

    def warnings(self) -> tuple[str, ...]:
        """Sentences about where the root lies."""
        places = (
            (
                self.on_system_disk,
                "The backup root is on the system disk: one broken disk takes the herder and its backups.",
            ),
            (
                self.removable_or_sd_card,
                "The backup root is on an SD card or removable disk: it wears out and can be pulled.",
            ),
        )
        return tuple(sentence for there, sentence in places if there)


def probe(root: Path) -> Capabilities:
    """Try each feature in a throw-away folder inside `root`. Raises RootUnusable when the root cannot be written at
    all.
    """
    scratch = root / f".probe-{secrets.token_hex(6)}"
    try:
        scratch.mkdir(mode=0o700)
        try:
            tried = {name: trial(scratch) for name, trial in _TRIALS.items()}
            owners = _can(lambda: os.chown(scratch, 54321, 54321)) if os.geteuid() == 0 else None
        finally:
            _clear(scratch)
        space = space_left(root)
    except OSError as error:
        raise RootUnusable(f"The backup root {_shown(root)} cannot be written: {error.strerror}.") from error
    place = _place(root)
    return Capabilities(
        **tried, owners=owners, filesystem=place.filesystem, free_bytes=space.free_bytes, free_inodes=space.free_inodes,
        on_system_disk=place.on_system_disk, removable_or_sd_card=place.removable,
    )  # fmt: skip


def _can(action: Callable[[], object]) -> bool:
    """Whether the filesystem does it. Raises OSError for a disk that is full or broken, which says nothing about
    features.
    """
    try:
        action()
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _touch(path: Path, data: bytes = b"x") -> Path:
    path.write_bytes(data)
    return path


def _hard_links(scratch: Path) -> bool:
    first, second = _touch(scratch / "link-a"), scratch / "link-b"
    return _can(lambda: os.link(first, second)) and first.stat().st_ino == second.stat().st_ino


def _symlinks(scratch: Path) -> bool:
    link = scratch / "symlink"
    return _can(lambda: link.symlink_to("nowhere/at all")) and os.readlink(link) == "nowhere/at all"


def _rename(scratch: Path) -> bool:
    folder = scratch / "folder"
    (folder / "sub").mkdir(parents=True)
    return _can(lambda: folder.rename(scratch / "renamed")) and (scratch / "renamed" / "sub").is_dir()


def _user_xattrs(scratch: Path) -> bool:
    path = _touch(scratch / "xattr")
    return _can(lambda: os.setxattr(path, "user.piherder", b"1")) and os.getxattr(path, "user.piherder") == b"1"


def _acls(scratch: Path) -> bool:
    path = _touch(scratch / "acl")
    return _can(lambda: os.setxattr(path, "system.posix_acl_access", _MINIMAL_ACL))


def _sparse(scratch: Path) -> bool:
    path, size = scratch / "sparse", 4 << 20
    with path.open("wb") as out:
        out.truncate(size)
    return path.stat().st_blocks * 512 < size


def _case_sensitive(scratch: Path) -> bool:
    _touch(scratch / "case")
    return not (scratch / "CASE").exists()


def _any_name(scratch: Path) -> bool:
    name = os.fsencode(scratch) + b"/caf\xe9"
    return _can(lambda: os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))) and b"caf\xe9" in os.listdir(
        os.fsencode(scratch)
    )


_TRIALS: dict[str, Callable[[Path], bool]] = {
    "hard_links": _hard_links, "symlinks": _symlinks, "rename": _rename, "user_xattrs": _user_xattrs, "acls": _acls,
    "sparse": _sparse, "case_sensitive": _case_sensitive, "any_name": _any_name,
}  # fmt: skip


def _clear(scratch: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(os.fsencode(scratch))


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/self/mounts."""

    source: str
    point: str
    kind: str


@dataclass(frozen=True, slots=True)
class _Place:
    filesystem: str
    on_system_disk: bool | None
    removable: bool | None


def parse_mounts(text: bytes) -> list[Mount]:
    """The mounts in the order they were made; blanks in names come as octal escapes (proc(5), fstab(5))."""
    fields = [line.split(b" ") for line in text.splitlines()]
    return [Mount(*(to_text(_OCTAL.sub(_unescape, part)) for part in line[:3])) for line in fields if len(line) >= 3]


def _unescape(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount:
    """The mount a resolved path lies on: the longest mount point above it, the latest of equal ones."""
    above = [m for m in mounts if path == m.point or path.startswith(m.point.rstrip("/") + "/")]
    return max(reversed(above), key=lambda mount: len(mount.point), default=Mount("", "/", ""))


def disks_of(device: str, sys_block: Path = Path("/sys/class/block")) -> frozenset[str]:
    """The whole disks under a block device such as /dev/sda2 or an LVM volume; empty when it is none."""
    entry = (sys_block / os.path.basename(os.path.realpath(device))).resolve() if device.startswith("/dev/") else None
    if entry is None or not entry.is_dir():
        return frozenset()
    if (entry / "partition").exists():
        return frozenset({entry.parent.name})
    below = [slave.name for slave in (entry / "slaves").glob("*")]
    if not below:
        return frozenset({entry.name})
    return frozenset().union(*(disks_of(f"/dev/{name}", sys_block) for name in below))


def is_removable(disk: str, sys_block: Path = Path("/sys/class/block")) -> bool:
    """Whether a disk is an SD card (mmcblk, but not soldered eMMC) or says that it can be taken out."""
    with suppress(OSError):
        if disk.startswith("mmcblk"):
            return (sys_block / disk / "device" / "type").read_text().strip() != "MMC"
        return (sys_block / disk / "removable").read_text().strip() == "1"
    return disk.startswith("mmcblk")


def _place(root: Path) -> _Place:
    mounts = parse_mounts(Path("/proc/self/mounts").read_bytes())
    here, system = mount_of(os.path.realpath(root), mounts), mount_of("/", mounts)
    disks, system_disks = disks_of(here.source), disks_of(system.source)
    known = bool(disks and system_disks)
    on_system = bool(disks & system_disks) if known else (True if here == system else None)
    return _Place(here.kind, on_system, any(map(is_removable, disks)) if disks else None)


def _shown(path: Path) -> str:
    return encode_name(os.fspath(path))
