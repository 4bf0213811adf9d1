"""Command lines, without running them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hosts.rsync.command import HOST_LOCK, Backup, Options, Remote, Restore, environment, plain

REMOTE = Remote("node-a", Path("/run/piherder/7/ssh_config"))
BACKUP = Backup(REMOTE, b"/srv/data", Path("/backups/node-a/1"), Path("/backups/node-a/.lock"))
RESTORE = Restore(REMOTE, Path("/backups/node-a/1"), b"/srv/data", Path("/backups/node-a/.lock"))


def test_a_backup_runs_under_the_herders_lock() -> None:
    words = [b"flock", b"-n", b"--no-fork", b"-E", b"75", b"/backups/node-a/.lock", b"rsync"]
    assert BACKUP.argv()[: len(words)] == words


def test_a_backup_pulls_the_inside_of_the_source() -> None:
    assert BACKUP.argv()[-3:] == [b"--", b"node-a:/srv/data/", b"/backups/node-a/1/"]


def test_what_a_backup_always_keeps() -> None:
    wanted = {b"-aAX", b"--hard-links", b"--sparse", b"--numeric-ids", b"--delete", b"--partial", b"-s"}
    assert wanted <= set(BACKUP.argv())


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (Options(fake_super=True), b"--fake-super"),
        (Options(dry_run=True), b"--dry-run"),
        (Options(bandwidth_kib=500), b"--bwlimit=500"),
    ],
)
def test_options(options: Options, word: bytes) -> None:
    assert word in replace(BACKUP, options=options).argv()
    assert word in replace(RESTORE, options=options).argv()
    assert word not in BACKUP.argv()


def test_fake_super_is_never_asked_of_the_host() -> None:
    both = [*replace(BACKUP, options=Options(fake_super=True)).argv(), *RESTORE.argv()]
    assert not any(word.startswith((b"-M", b"--remote-option")) for word in both)


def test_link_dest_excludes_and_file_system() -> None:
    argv = replace(
        BACKUP, link_dest=Path("/backups/node-a/0"), excludes=("*.tmp", "- x", "/a b"), one_file_system=True
    ).argv()
    wanted = {b"--link-dest=/backups/node-a/0", b"--exclude=*.tmp", b"--exclude=- x", b"--exclude=/a b"}
    assert wanted | {b"--one-file-system"} <= set(argv)


def test_a_host_that_reads_all_its_files_first_may_be_silent_for_long() -> None:
    def limits(by_content: bool) -> list[bytes]:
        return [word for word in replace(BACKUP, by_content=by_content).argv() if word.startswith(b"--timeout=")]

    assert (limits(False), limits(True)) == ([b"--timeout=300"], [])


@pytest.mark.parametrize("path", [b"", b"   ", b"srv", b"-rf", b"~/x", b"/a\0b"])
def test_paths_that_are_not_absolute_are_refused(path: bytes) -> None:  # case C16
    with pytest.raises(ValueError, match="not an absolute path"):
        replace(BACKUP, source=path).argv()
    with pytest.raises(ValueError, match="not an absolute path"):
        replace(RESTORE, destination=path).argv()


def test_a_destination_here_that_is_not_absolute_is_refused() -> None:  # case C16
    with pytest.raises(ValueError, match="not an absolute path"):
        replace(BACKUP, destination=Path("node-a")).argv()


@pytest.mark.parametrize("path", [b"/", b"//", b"/.", b"/./"])
def test_a_restore_never_deletes_from_the_root(path: bytes) -> None:  # case C16
    with pytest.raises(ValueError, match="below /"):
        replace(RESTORE, destination=path, options=Options(delete=True)).argv()
    assert replace(RESTORE, destination=path).argv()


def test_a_restore_pushes_and_does_not_delete() -> None:
    argv = RESTORE.argv()
    assert argv[-3:] == [b"--", b"/backups/node-a/1/", b"node-a:/srv/data/"]
    assert {b"--delete", b"--partial"}.isdisjoint(argv)


def test_names_travel_on_stdin() -> None:
    restore = replace(RESTORE, names=(b"-n", b"caf\xe9/a\nb"))
    assert {b"--files-from=-", b"--from0", b"--recursive"} <= set(restore.argv())
    assert restore.stdin() == b"/-n\0/caf\xe9/a\nb\0"


@pytest.mark.parametrize("name", [b"", b"/etc", b"../x", b"a/../../x", b"a/./b", b".", b"a//b", b"a/", b"a\0b"])
def test_names_that_leave_the_generation_are_refused(name: bytes) -> None:
    with pytest.raises(ValueError, match="not a name inside"):
        replace(RESTORE, names=(name,)).stdin()


@pytest.mark.parametrize(
    ("path", "word"),
    [
        (b"/a b", b"node-a:/a b/"),
        (b"/w*ld", b"node-a:/w\\*ld/"),
        (b"/[a]?", b"node-a:/\\[a]\\?/"),
        (b"/back\\slash", b"node-a:/back\\slash/"),
        (b"/back\\slash*", b"node-a:/back\\\\slash\\*/"),
        (b"/caf\xe9\n'\"$HOME", b"node-a:/caf\xe9\n'\"$HOME/"),
        (b"/", b"node-a:/"),
    ],
)
def test_names_mean_themselves(path: bytes, word: bytes) -> None:
    assert replace(BACKUP, source=path).argv()[-2] == word


def test_a_destination_with_wildcards_is_never_made() -> None:
    argv = replace(RESTORE, destination=b"/w*ld").argv()
    assert (argv[-1], b"--mkpath" in argv) == (b"node-a:/w\\*ld/.", False)
    assert b"--mkpath" in RESTORE.argv()


def test_ssh_ends_with_rsync() -> None:
    argv = BACKUP.argv()
    assert argv[argv.index(b"-e") + 1] == b"setpriv --pdeathsig TERM ssh -F /run/piherder/7/ssh_config"


def test_the_host_side_has_nothing_a_login_shell_could_change() -> None:
    head, script, tail = REMOTE.rsync_path().split("'")
    assert (head, tail) == ("sh -c ", " sh")
    assert not set(script) & set("\\!\n`")


def test_the_host_side_takes_the_lock_of_the_machine() -> None:
    assert f'flock -n -E 75 {HOST_LOCK} rsync "$@"' in REMOTE.rsync_path()
    assert f'flock -n -E 75 {HOST_LOCK} sudo -n rsync "$@"' in replace(REMOTE, sudo=True).rsync_path()


def test_the_lock_of_the_machine_is_a_folder_that_is_always_there() -> None:
    assert Path(HOST_LOCK).is_dir()


@pytest.mark.parametrize("word", ["a b", "$(id)", "a;b", "", "-F", "a'b", "a\nb", "a\\b", "é"])
def test_words_that_a_shell_could_read_otherwise_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        plain(word)
    with pytest.raises(ValueError, match="letters, digits"):
        replace(REMOTE, lock=word).rsync_path()


def test_the_environment_is_fixed() -> None:
    assert environment()["LC_ALL"] == "C"
    assert "SSH_AUTH_SOCK" not in environment()
    assert environment("/run/a.sock")["SSH_AUTH_SOCK"] == "/run/a.sock"
