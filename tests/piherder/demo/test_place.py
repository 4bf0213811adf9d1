"""Options, folder and environment of the demonstration, and that nothing of it is left."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from piherder.demo import place
from piherder.demo.place import Options
from piherder.house.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("words", "terminal", "stay"),
    [
        ([], True, True),
        ([], False, False),
        (["--exit"], True, False),
        (["--stay"], False, True),
        (["--yes", "--exit"], False, False),
    ],
)
def test_it_stays_on_a_terminal_unless_told(words: list[str], terminal: bool, stay: bool) -> None:
    assert place.parse(words, terminal=terminal) == Options(stay)


def test_the_folder_is_kept_on_wish() -> None:
    assert place.parse(["--keep"], terminal=False).keep


@pytest.mark.parametrize("words", [["--exit", "--stay"], ["--nonsense"], ["word"]])
def test_wrong_use_ends_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        place.parse(words, terminal=False)
    assert ended.value.code == 2


def test_nothing_of_another_installation_is_taken_along() -> None:
    theirs = {"REDIS_URL": "x", "DATABASE_URL": "x", "PIHERDER_BACKUPS": "/mnt", "CELERY_CONCURRENCY": "9"}
    assert place.isolated({**theirs, "DJANGO_SETTINGS_MODULE": "x", "HOME": "/root"}) == {"HOME": "/root"}


@pytest.mark.parametrize(
    ("wanted", "parent"),
    [("/tmp", "/tmp"), ("/var/tmp", "/var/tmp"), ("/run/user/0", "/tmp"), ("/home/" + 30 * "x", "/tmp")],
)
def test_the_folder_lies_where_sockets_fit_and_backups_are_allowed(wanted: str, parent: str) -> None:
    assert place.parent_folder(wanted) == parent


def test_the_folder_is_private_and_new() -> None:
    one, two = place.make_folder(), place.make_folder()
    try:
        assert one != two
        assert {folder.stat().st_mode & 0o777 for folder in (one, two)} == {0o700}
        assert place.installation(one).is_loopback
    finally:
        place.remove(one)
        place.remove(two)
    assert not one.exists()


@contextmanager
def running(*words: str, **environment: str) -> Iterator[int]:
    command = ["sh", "-c", 'trap "" TERM; echo up; while :; do sleep 0.1; done', *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **environment})
    with process:
        assert process.stdout
        assert process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def test_a_process_that_stayed_behind_is_found_and_killed(tmp_path: Path) -> None:
    with running(PIHERDER_DATA=str(tmp_path / place.HERDER)) as pid:
        assert pid in place.left(tmp_path)
        assert pid in place.end_left(tmp_path, seconds=0.2)
        assert wait_until(lambda: not place.left(tmp_path), 5)


def test_a_program_of_ours_without_our_environment_is_found_by_its_folder(tmp_path: Path) -> None:
    config = tmp_path / "no such config"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(tmp_path / "a")], stdout=subprocess.DEVNULL) as agent:
        assert wait_until(lambda: agent.pid in place.left(tmp_path), 5)
        agent.kill()
    assert not config.exists()


def test_a_persons_own_programs_are_left_alone(tmp_path: Path) -> None:
    with running(str(tmp_path), PWD=str(tmp_path)) as pid:
        assert place.left(tmp_path) == []
        assert place.end_left(tmp_path, seconds=0.2) == []
        os.kill(pid, 0)


def test_read_only_folders_are_removed_too(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    os.symlink("/", folder / "link")
    (folder / "a" / "b").chmod(0)
    place.remove(folder)
    assert not folder.exists()
    assert Path("/etc").exists()
