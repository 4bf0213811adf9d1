"""Checksums of one copy, in memory and beyond it."""

from __future__ import annotations

import errno
from hashlib import md5

import pytest

from hosts.checksums import Checksums
from hosts.rsync.output import FileLine


def line(name: bytes, text: bytes = b"x") -> FileLine:
    return FileLine(name, ">f+++++++++", 1, b"", md5(text).hexdigest() if text else "")


@pytest.mark.parametrize("at_once", [1, 3, 100], ids=["all on disk", "both", "all in memory"])
def test_what_was_heard_is_known_wherever_it_lies(at_once: int) -> None:
    names = [b"caf\xe9", b"b/a", b"b/b", b"new\nline", b"z"]
    with Checksums(at_once) as heard:
        for name in names:
            heard.hear(line(name, name))
        assert {name: heard.get(name) for name in names} == {name: md5(name).hexdigest() for name in names}
        assert (sorted(heard), len(heard), heard.get(b"other")) == (sorted(names), 5, None)


@pytest.mark.parametrize("at_once", [1, 100])
def test_the_later_word_holds_and_none_is_no_word(at_once: int) -> None:
    with Checksums(at_once) as heard:
        for text in (b"old", b"new", b""):
            heard.hear(line(b"a", text))
        assert dict(heard) == {b"a": md5(b"new").hexdigest()}


def test_memory_holds_no_more_than_it_may() -> None:
    with Checksums(10) as heard:
        for number in range(95):
            heard.hear(line(b"%d" % number))
        assert (len(heard.recent), len(heard)) == (5, 95)


def hear_many(heard: Checksums) -> None:
    for number in range(1000):
        heard.hear(line(b"%d" % number * 50))


def test_a_full_temporary_folder_is_no_space() -> None:
    with Checksums(1) as heard:
        heard.hear(line(b"a"))
        assert heard.spooled is not None
        heard.spooled.execute("PRAGMA max_page_count = 2")
        with pytest.raises(OSError, match="folder for temporary files is full") as full:
            hear_many(heard)
    assert full.value.errno == errno.ENOSPC
