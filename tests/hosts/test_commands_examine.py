"""What a host answers about itself, read and judged."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from hosts.examine import SCRIPT, Answers, failed, judge, read_answers, tier

if TYPE_CHECKING:
    from pathlib import Path

GOOD = Answers((3, 2, 7), True, (), 1 << 20, 1 << 19)


def advice(answers: Answers, *sources: str) -> list[str]:
    """What a person is told to do."""
    return [check.advice for check in judge("pi1", answers, sources) if not check.well]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("rsync=rsync  version 3.2.7  protocol version 31", (3, 2, 7)),
        ("rsync=rsync  version v3.4.1  protocol version 32", (3, 4, 1)),
        ("rsync=", None),
        ("", None),
        ("rsync=openrsync: protocol version 29", (29,)),
    ],
)
def test_versions_of_rsync(line: str, version: tuple[int, ...] | None) -> None:
    assert read_answers(line).rsync == version


def test_noise_of_login_scripts_is_passed_over() -> None:
    answers = read_answers("Welcome!\nflock=yes\ndisk=100 50\nsource=1 there\nsource=2 missing\n")
    assert answers == Answers(None, True, ("there", "missing"), 100, 50)


@pytest.mark.parametrize("disk", ["", "disk=", "disk=- -", "disk=7"])
def test_unknown_disk_is_unknown_and_not_zero(disk: str) -> None:
    answers = read_answers(disk)
    assert (answers.disk_total, answers.disk_free) == (None, None)


def test_a_good_host_needs_nothing() -> None:
    assert advice(GOOD) == []


def test_what_is_missing_is_named_with_the_package() -> None:
    assert advice(Answers(None, False, (), None, None)) == [
        "rsync is missing on pi1: sudo apt-get install rsync",
        "flock is missing on pi1: sudo apt-get install util-linux",
    ]


def test_an_old_rsync_is_too_old() -> None:
    assert advice(Answers((3, 1, 3), True, (), None, None))[0].startswith("rsync 3.1.3 on pi1 is too old")


def test_a_full_disk_is_named() -> None:
    assert advice(Answers((3, 2), True, (), 1 << 20, 1000)) == ["/ on pi1 is nearly full: free some space there"]


def test_sources_are_judged_by_name() -> None:
    answers = Answers((3, 2), True, ("there", "missing", "unreadable"), None, None)
    assert [words.split()[0] for words in advice(answers, "/a", "/b", "/c")] == ["/b", "/c"]


@pytest.mark.parametrize("mode", ["passwordless", "password", "none"])
def test_either_tier_of_rights_is_well_and_says_what_is_backed_up(mode: str) -> None:
    own, everything = tier(mode, copies=False), tier(mode, copies=True)
    assert own.well
    assert everything.well
    assert "only what this user may read" in own.words
    assert "only" not in everything.words


def test_a_script_that_did_not_run_says_why() -> None:
    assert failed("pi1", 127, "noise\nsh: not found\n").advice == (
        "A small script cannot run on pi1 (sh: not found): repair its shell"
    )


@pytest.mark.parametrize("sudo", ["", "env"])
def test_the_script_runs_in_a_plain_shell(tmp_path: Path, sudo: str) -> None:
    odd = tmp_path / "a b'c\n$(x)"
    odd.mkdir()
    argv = ["sh", "-c", SCRIPT, "examine", sudo, str(odd), str(tmp_path / "no")]
    answers = read_answers(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    assert answers.sources == ("there", "missing")
    assert answers.disk_free


@pytest.mark.parametrize("sudo", ["", "env"])
def test_a_file_is_no_source(tmp_path: Path, sudo: str) -> None:
    (tmp_path / "file").write_text("a file")
    argv = ["sh", "-c", SCRIPT, "examine", sudo, str(tmp_path / "file")]
    answers = read_answers(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    assert answers.sources == ("no folder",)
    assert advice(answers, "/srv/a")[-1] == "/srv/a is no folder on pi1: name the folder that holds it as the source"
