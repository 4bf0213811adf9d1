"""Which paths are taken, and that every name survives being text."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from hosts.store import paths
from hosts.store.paths import PathRefused

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "name", [b"plain", b"caf\xe9.txt", b"new\nline", b"100%", b"%41", b"-rf", b"\x7f", b"\xff\xfe"]
)
def test_a_name_of_any_bytes_comes_back(name: bytes) -> None:  # case C13
    text = paths.encode_name(name)
    assert text.isprintable()
    assert paths.decode_name(text) == name


def test_random_bytes_come_back_and_can_be_stored_as_utf8() -> None:  # case C13
    rng = random.Random(7)
    for _ in range(500):
        name = rng.randbytes(rng.randrange(1, 40))
        text = paths.encode_name(name)
        assert paths.decode_name(json.loads(json.dumps(text).encode("utf-8"))) == name


def test_two_names_never_become_one_text() -> None:
    assert paths.encode_name(b"caf%E9") != paths.encode_name(b"caf\xe9")


def test_readable_names_stay_readable() -> None:
    assert paths.encode_name("Grüße 2026.txt".encode()) == "Grüße 2026.txt"


def test_line_separators_do_not_break_a_line() -> None:
    assert paths.encode_name("a\u2028b\u0085c") == "a%E2%80%A8b%C2%85c"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("/srv/data/", "/srv/data"),
        ("//srv///data", "/srv/data"),
        ("/srv/./data", "/srv/data"),
        (b"/srv/caf\xe9", "/srv/caf\udce9"),
    ],
)
def test_paths_are_normalised(given: str | bytes, wanted: str) -> None:
    assert paths.normalise(given) == wanted


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("\t\n", "empty"),
        ("srv/data", "absolute"),
        (" /srv", "absolute"),
        ("~/x", "absolute"),
        ("/srv/../etc", "without it"),
        ("/..", "without it"),
        ("/srv\0/x", "NUL"),
    ],
)
def test_bad_paths_are_refused_in_words(given: str, says: str) -> None:  # case C16
    for check in (paths.check_source, paths.check_target):
        with pytest.raises(PathRefused, match=says):
            check(given)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/./",
        "/proc",
        "/proc/1",
        "/sys/x",
        "/dev/sda",
        "/run/x",
        "/boot/firmware",
        "/bin",
        "/usr",
        "/usr/share",
        "/var/run/x",
    ],
)
def test_the_operating_system_is_denied_unless_allowed(path: str) -> None:  # case C16
    for check in (paths.check_source, paths.check_target):
        with pytest.raises(PathRefused, match="operating system"):
            check(path)
        assert check(path, allow_system=True) == paths.normalise(path)


@pytest.mark.parametrize(
    "path",
    [
        "/etc",
        "/home/bob",
        "/root",
        "/srv",
        "/var/lib/docker",
        "/opt",
        "/usr/local/bin",
        "/procedures",
        "/devel",
        "/runner",
    ],
)
def test_a_persons_folders_are_fine(path: str) -> None:
    assert paths.check_source(path) == path
    assert paths.check_target(path) == path


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/srv/*", "pattern"),
        ("/srv/a?", "pattern"),
        ("/srv/[ab]", "pattern"),
        ("/srv/a\nb", "control"),
        ("/srv/a ", "blank"),
    ],
)
def test_slips_in_a_source_are_refused_but_are_real_names_at_a_target(path: str, says: str) -> None:
    with pytest.raises(PathRefused, match=says):
        paths.check_source(path)
    assert paths.check_target(path) == path


def test_a_refusal_never_prints_raw_bytes() -> None:
    with pytest.raises(PathRefused) as refused:
        paths.check_target(b"/usr/caf\xe9\n")
    assert str(refused.value).startswith("/usr/caf%E9%0A belongs to the operating system")


def test_inside_resolves_links_and_dots(tmp_path: Path) -> None:  # case C16
    root, outside = tmp_path / "root", tmp_path / "rootless"
    (root / "host").mkdir(parents=True)
    outside.mkdir()
    (root / "way-out").symlink_to(outside)
    assert paths.inside(root, root / "host" / "new")
    assert not paths.inside(root, root / "way-out" / "new")
    assert not paths.inside(root, root / "host" / ".." / ".." / "x")
    assert not paths.inside(root, outside)


def test_the_root_itself_is_not_inside_itself(tmp_path: Path) -> None:  # case C16
    with pytest.raises(PathRefused, match="not inside"):
        paths.require_inside(tmp_path, tmp_path / ".")


@pytest.mark.parametrize("name", ["../x", "/etc", "a//b", "a/./b", "a/..", "a\0b"])
def test_names_that_lead_out_of_a_generation_are_refused(name: str) -> None:
    with pytest.raises(PathRefused):
        paths.relative_parts(name)


def test_the_top_of_a_generation_has_no_parts() -> None:
    assert paths.relative_parts(".") == paths.relative_parts("") == ()
    assert paths.relative_parts(b"a/caf\xe9") == (b"a", b"caf\xe9")
