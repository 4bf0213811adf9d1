"""The base image: built once with debootstrap, kept as a tar in the cache."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from piherder import env
from piherder.house.processes import wait_until
from tests.lab.recipe import HOST, SUITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab.recipe import Recipe

BUILD_SECONDS = 900
LOOK_SECONDS = 2.0


class LabError(Exception):
    """The lab cannot go on; the text says why."""


def cache() -> Path:
    """Where everything of the lab lies; PIHERDER_LAB_CACHE names another folder. Not on overlayfs."""
    folder = Path(env.text("PIHERDER_LAB_CACHE", "/var/cache/piherder-lab"))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Two labs on one machine build and choose one after the other."""
    with (cache() / f"{name}.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def call(*command: str, seconds: float = 60, cwd: Path | None = None) -> str:
    """Output of a command. Raises LabError with the end of what it said."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, cwd=cwd, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(command[:6])} … did not end within {seconds:.0f} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()
        raise LabError(f"{' '.join(command[:6])} … ended with {done.returncode}: {' / '.join(said[-5:])}")
    return done.stdout.strip()


def comes(check: Callable[[], bool], seconds: float) -> bool:
    """Whether it becomes true in time. Each look starts a program on a host, so it looks seldom."""
    return wait_until(check, seconds, pause=LOOK_SECONDS)


def tar(recipe: Recipe = HOST) -> Path:
    """A root file system as a tar, built when the cache lacks it (a minute, with Debian's mirror in reach)."""
    path = cache() / f"{recipe.name}-{SUITE}-{recipe.digest()}.tar"
    with locked(recipe.name):
        if not path.exists():
            build(recipe, path)
            for old in cache().glob(f"{recipe.name}-{SUITE}-*.tar"):
                if old != path:
                    old.unlink()
    return path


def build(recipe: Recipe, path: Path) -> None:
    """Fill a tree, finish it, and put its tar in place at once. Raises LabError."""
    work = Path(tempfile.mkdtemp(prefix="build-", dir=cache()))
    tree = work / "tree"
    try:
        tree.mkdir()
        tree.chmod(0o755)  # whatever our umask is
        call(*recipe.debootstrap(str(tree), env.text("PIHERDER_LAB_MIRROR")), seconds=BUILD_SECONDS)
        for name, text in recipe.files.items():
            (tree / name).write_text(text)
            (tree / name).chmod(0o755)
        trust(tree)
        call("chroot", str(tree), "/bin/sh", "-c", f"umask 022\n{recipe.finish}", seconds=BUILD_SECONDS)
        call("tar", "-C", str(tree), "--numeric-owner", "-cf", str(work / "base.tar"), ".", seconds=300)
        os.replace(work / "base.tar", path)
    finally:
        unmount_below(work)
        shutil.rmtree(work, ignore_errors=True)


def trust(tree: Path) -> None:
    """Hosts trust the authorities that this machine's owner added: its network may stand behind one of them."""
    own, theirs = Path("/usr/local/share/ca-certificates"), tree / "usr/local/share/ca-certificates"
    for certificate in own.glob("*.crt"):
        shutil.copyfile(certificate, theirs / certificate.name)
    call("chroot", str(tree), "update-ca-certificates")


def unmount_below(folder: Path) -> None:
    """Take away every mount in `folder`, the deepest first: what debootstrap or an engine that was killed left."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in sorted((p for p in points if p.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", point], capture_output=True, timeout=30)
