"""The command lines of backup and restore, as pure data.

Choices, and where they come from:

- `-s` (`--secluded-args`, `--protect-args` before 3.2.4): names travel inside the protocol, so no login shell of the
  host sees them. rsync itself still expands wildcards in them (rsync(1)), hence `literal`.
- `--fake-super` acts on the side that gets the option and is not passed on (rsync(1)): given to the rsync of the
  herder it stores owners, devices and ACLs in `user.rsync.*` xattrs on a pull, and reads them back on a push. `-M` is
  never wanted here, since the host's side is the real one in both directions.
- A backup writes with `--partial` and no `--partial-dir`: the destination is unpublished until a whole run succeeded,
  rsync gives a cut file an mtime of 1970 so that the next run does not take it for finished (cleanup.c), and no foreign
  folder can end up in a generation. A restore has no `--partial`: a live file is replaced whole or not at all.
- `--modify-window=-1`: times are compared to the nanosecond, or an edit of the same length within the same second would
  be taken for the old content (rsync(1)).
- `--checksum-choice=md5`: see `hosts.rsync.output`.
- With `--checksum` there is no `--timeout`: the host reads all files while it builds its list and may send nothing for
  hours (rsync(1)). ssh's own ServerAliveInterval finds a host that is gone.
- A restore of single names says `--no-implied-dirs`: else the folders above them, which --files-from sends along, would
  be changed on the host to what they were, and a link that stands for one of them replaced (rsync(1), --relative).
- A restore that deletes protects what the backup left out, by `--filter=P` and not by `--exclude`, which would also
  keep back what an older generation has of it. Backup roots are kept by `--exclude`: into them nothing is written
  either. A root that the host knows by another path, as a container's volume, closes itself: the file in it that
  `--filter=:` names holds `- *`, and rsync minds it on both sides. `--one-file-system` acts on the receiver too: it
  deletes nothing on other filesystems (rsync(1)).
- The lock of a host is its `/etc` folder. `flock` on a folder needs no file to be made, works for every user, and is
  the same inode for all of them, so the machine reached as two users still conflicts. A file under the sticky
  /run/lock would not do: with fs.protected_regular (systemd sets it) not even root may open another user's file there.
- The host's side runs in `sh -c '…' sh`: the text holds no single quote, backslash, `!` or newline, so sh, bash, zsh,
  fish and csh all pass it on unchanged. It says busy and missing programs in words on stderr, because an exit code
  alone can be lost: rsync collects ssh's status without waiting (cleanup.c).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hosts.rsync.process import safe_text

if TYPE_CHECKING:
    from pathlib import Path

HOST_LOCK = "/etc"
BUSY_EXIT = 75  # EX_TEMPFAIL of sysexits.h
BUSY_MARK = "piherder: busy"
NO_FLOCK_MARK = "piherder: flock: not found"
NO_RSYNC_MARK = "piherder: rsync: not found"
NETWORK_TIMEOUT = 300  # seconds without a byte

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OUT_FORMAT = "--out-format=file\t%i\t%l\t%M\t%C\t%n"
_COPY = (
    "-aAX",
    "-s",
    "--numeric-ids",
    "--sparse",
    "--no-human-readable",
    "--outbuf=L",
    "--info=progress2,stats2",
    "--checksum-choice=md5",
    "--modify-window=-1",
    OUT_FORMAT,
)
# The destination is ours alone. What an interrupted run left there and the host no longer has goes also when some names
# of the host cannot be read, which would otherwise keep rsync from deleting (rsync(1), --ignore-errors).
_UNPUBLISHED = (b"--partial", b"--ignore-errors")
_PLAIN = re.compile(r"[A-Za-z0-9_./+:@=,-]+")
_WILD = re.compile(rb"[*?\[]")


def environment(auth_sock: str = "") -> dict[str, str]:
    """Return the whole environment of an rsync run: messages in English, times in UTC, no one's RSYNC_* settings."""
    env = {"PATH": PATH, "LC_ALL": "C", "TZ": "UTC"}
    return env | {"SSH_AUTH_SOCK": auth_sock} if auth_sock else env


def plain(word: str) -> str:
    """Return `word` if every shell and rsync's own splitter of `-e` read it as one plain word; else ValueError."""
    if not _PLAIN.fullmatch(word) or word.startswith("-"):
        raise ValueError(f"{word!r} must be made of letters, digits and _ . / + : @ = , - only.")
    return word


@dataclass(frozen=True, slots=True)
class Remote:
    """The host's side of a copy. `alias` is a Host of `ssh_config`; `lock` is an existing folder or a file to make."""

    alias: str
    ssh_config: Path
    sudo: bool = False
    lock: str = HOST_LOCK

    def ssh(self) -> tuple[str, ...]:
        """Return the ssh program of this job; it ends when the program that started it ends."""
        return ("setpriv", "--pdeathsig", "TERM", "ssh", "-F", plain(str(self.ssh_config)))

    def rsync_path(self) -> str:
        """Return the value of --rsync-path: rsync under the host's lock, for any login shell."""
        rsync = "sudo -n rsync" if self.sudo else "rsync"
        script = (
            f'command -v flock >/dev/null || {{ echo "{NO_FLOCK_MARK}" >&2; exit 127; }}; '
            f'command -v rsync >/dev/null || {{ echo "{NO_RSYNC_MARK}" >&2; exit 127; }}; '
            f'flock -n -E {BUSY_EXIT} {plain(self.lock)} {rsync} "$@"; s=$?; '
            f'test $s -eq {BUSY_EXIT} && echo "{BUSY_MARK}" >&2; exit $s'
        )
        return f"sh -c '{script}' sh"

    def place(self, path: bytes) -> bytes:
        return os.fsencode(plain(self.alias)) + b":" + literal(path)

    def idle_command(self) -> str:
        """Shell command that exits 0 when no copy holds the host's lock, 75 when one does."""
        return f"flock -n -E {BUSY_EXIT} {plain(self.lock)} true"

    def echo_argv(self) -> tuple[str, ...]:
        """Command whose output is what login scripts print; nothing on a clean host."""
        return (*self.ssh(), plain(self.alias), "true")


@dataclass(frozen=True, slots=True)
class Options:
    """What backup and restore have in common. `bandwidth_kib` is KiB/s, 0 for no limit.

    `fake_super`: the herder is not root, or was not when it wrote the generation. `delete` means a restore only.
    `patient`: the other side may be silent for as long as its connection stands.
    """

    fake_super: bool = False
    hard_links: bool = True
    delete: bool = False
    dry_run: bool = False
    bandwidth_kib: int = 0
    patient: bool = False

    def argv(self) -> list[bytes]:
        wanted = {
            "--hard-links": self.hard_links,
            "--fake-super": self.fake_super,
            "--delete": self.delete,
            "--dry-run": self.dry_run,
            f"--bwlimit={self.bandwidth_kib}": self.bandwidth_kib > 0,
            f"--timeout={NETWORK_TIMEOUT}": not self.patient,
        }
        return [os.fsencode(word) for word in (*_COPY, *(word for word, on in wanted.items() if on))]


@dataclass(frozen=True, slots=True)
class Backup:
    """Pull `source` (an absolute folder of the host) into the local folder `destination`.

    `link_dest`: the previous generation, whose unchanged files are hard-linked. `lock_file`: taken for the whole copy,
    by rsync and each of its children, so it is free only when all of them are gone. `by_content`: a file of the
    previous generation is linked only where its content is that of the host, not for its size and time alone. `closed`
    are names of files that keep rsync out of the folders that hold them.
    """

    remote: Remote
    source: bytes
    destination: Path
    lock_file: Path
    options: Options = Options()
    link_dest: Path | None = None
    excludes: tuple[str, ...] = ()
    one_file_system: bool = False
    by_content: bool = False
    closed: tuple[str, ...] = ()

    def argv(self) -> list[bytes]:
        """Return the command. Raises ValueError for a path that is not absolute."""
        options = replace(self.options, delete=True, patient=self.by_content)
        words = [*_locked(self.lock_file), *options.argv(), *_UNPUBLISHED, *_closing(self.closed)]
        if self.link_dest is not None:
            words.append(b"--link-dest=" + _absolute(bytes(self.link_dest)))
        if self.one_file_system:
            words.append(b"--one-file-system")
        if self.by_content:
            words.append(b"--checksum")
        words += [b"--exclude=" + os.fsencode(pattern) for pattern in self.excludes]
        source = self.remote.place(_folder(self.source))
        return [*words, *_far(self.remote), b"--", source, _folder(bytes(self.destination))]

    def stdin(self) -> bytes:
        return b""


@dataclass(frozen=True, slots=True)
class Restore:
    """Push a folder of a generation, or `names` in it (files or folders, by bytes), into `destination` on the host.

    Nothing is deleted unless `options.delete`, and then neither what matches `excludes`, nor what is in a folder with a
    file of `closed`, nor, with `one_file_system`, what is mounted below. What matches `alone` is not even written.

    `names` None means the folder itself and all in it; with names it is left as it is, and so are the folders above
    them that are there. `missing` is the topmost folder above the only name that is not: it and those below it are made
    as they were saved. A parent that is missing and not named so gets the host's usual rights.
    """

    remote: Remote
    generation: Path
    destination: bytes
    lock_file: Path
    options: Options = Options()
    names: tuple[bytes, ...] | None = None
    missing: bytes = b""
    excludes: tuple[str, ...] = ()
    one_file_system: bool = False
    alone: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()

    def argv(self) -> list[bytes]:
        """Return the command. Raises ValueError for a path that is not absolute, or / together with delete."""
        if self.options.delete and not self.destination.strip(b"/. "):
            raise ValueError("A restore that deletes must name a folder below /.")
        words = [*_locked(self.lock_file), *self.options.argv()]
        words += [b"--exclude=" + os.fsencode(pattern) for pattern in self.alone]
        if self.names is not None:
            words += [b"--recursive", b"--files-from=-", b"--from0", b"--no-implied-dirs"]
        if self.missing:
            words += _only(self.missing, *self._listed())
        if self.options.delete:
            words += [*_closing(self.closed), *_protecting(self.excludes)]
            words += [b"--one-file-system"] if self.one_file_system else []
        words += _far(self.remote)
        return [*words, *self._mkpath(), b"--", _folder(bytes(self.generation)), self._goal()]

    def _goal(self) -> bytes:
        # rsync makes a missing destination under its escaped name. With "/." and without --mkpath it cannot, so a
        # destination with wildcards in its name has to exist.
        folder = _folder(self.destination)
        return self.remote.place(folder + b"." if _WILD.search(folder) else folder)

    def _mkpath(self) -> list[bytes]:
        return [] if _WILD.search(self.destination) else [b"--mkpath"]

    def stdin(self) -> bytes:
        """Return the list of names for --files-from. Raises ValueError for a name that leaves the generation."""
        return b"".join(_inside(name) + b"\0" for name in ([self.missing] if self.missing else self._listed()))

    def _listed(self) -> tuple[bytes, ...]:
        return self.names or ()


def _only(top: bytes, name: bytes) -> list[bytes]:
    """Of all below `top`, which is a folder above `name`, that name alone and the folders on the way to it."""
    rules, above = list[bytes](), b"/" + top
    for part in name.removeprefix(top + b"/").split(b"/"):
        rules += [b"--filter=+ " + literal(above + b"/" + part), b"--filter=- " + _escaped(above) + b"/*"]
        above += b"/" + part
    return rules


def _protecting(excludes: tuple[str, ...]) -> list[bytes]:
    """Rules that keep a deleting restore from what a backup with these excludes leaves out.

    rsync reads "- " before a pattern of --exclude as nothing; "+ " and "!" take something in, which needs no rule. A
    folder that matches is protected with all in it: the generation may know the folder and not what is in it now.
    """
    patterns = (pattern.removeprefix("- ") for pattern in excludes if not pattern.startswith(("+ ", "!")))
    rules = [rule for pattern in map(os.fsencode, patterns) for rule in (pattern, _with_all_in_it(pattern))]
    return [b"--filter=P " + rule for rule in rules]


def _with_all_in_it(pattern: bytes) -> bytes:
    """A backslash means itself in a pattern without wildcards, and this one has asterisks."""
    folder = pattern.rstrip(b"/")
    return (folder if _WILD.search(folder) else _escaped(folder)) + b"/***"


def _closing(names: tuple[str, ...]) -> list[bytes]:
    return [b"--filter=: " + os.fsencode(name) for name in names]


def _far(remote: Remote) -> list[bytes]:
    return [b"-e", os.fsencode(" ".join(remote.ssh())), os.fsencode(f"--rsync-path={remote.rsync_path()}")]


def _locked(lock_file: Path) -> list[bytes]:
    # --no-fork: rsync is the program that was started, so the parent-death signal is its own, and its children
    # inherit the lock.
    return [b"flock", b"-n", b"--no-fork", b"-E", b"%d" % BUSY_EXIT, _absolute(bytes(lock_file)), b"rsync"]


def _absolute(path: bytes) -> bytes:
    if not path.startswith(b"/") or b"\0" in path:
        raise ValueError(f"{safe_text(path)} is not an absolute path.")
    return path


def _folder(path: bytes) -> bytes:
    return _absolute(path).rstrip(b"/") + b"/"


def literal(path: bytes) -> bytes:
    """Return the path so that rsync's own wildcard expansion on the host finds this name and no other.

    A name without wildcards is taken as it is, backslashes included (util1.c, glob_expand).
    """
    return _escaped(path) if _WILD.search(path) else path


def _escaped(path: bytes) -> bytes:
    return re.sub(rb"[*?\[\\]", rb"\\\g<0>", path)


def _inside(name: bytes) -> bytes:
    # "." is refused too: rsync reads "/./" as the place to cut the path, and "./" would touch the destination itself.
    # The slash is dropped again by rsync, but keeps "#1" from being a comment, even with --from0.
    if b"\0" in name or not {b"", b".", b".."}.isdisjoint(name.split(b"/")):
        raise ValueError(f"{safe_text(name)} is not a name inside the generation.")
    return b"/" + name
