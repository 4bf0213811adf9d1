"""Which mounted disks a backup leaves out."""

from __future__ import annotations

import pytest

from hosts.coverage import not_covered, warnings
from tests.factories import make_host
from tests.hosts.rows import disk, know, make_source

ART = "not covered: other file system at /data/art"


@pytest.mark.parametrize(
    ("path", "mounts", "found"),
    [
        ("/data", ["/", "/data", "/data/art", "/database"], (ART,)),
        ("/", ["/", "/data/art"], (ART,)),
        ("/data/art", ["/", "/data/art"], ()),
        ("/data", ["/data/a\nb"], ("not covered: other file system at /data/a%0Ab",)),
    ],
)
def test_mount_points_below_a_source_are_named(path: str, mounts: list[str], found: tuple[str, ...]) -> None:
    assert warnings(path, mounts) == found  # case C21


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "stays", "found"), [("/data", True, (ART,)), ("/data", False, ()), ("/", False, (ART,))]
)
def test_only_a_source_that_stays_on_one_filesystem_leaves_any_out(path: str, stays: bool, found: tuple[str]) -> None:
    source = make_source(make_host(), path, one_file_system=stays)
    assert not_covered(source) == ()  # nothing is known of the host yet
    know(source.host, disks=(disk("/", 10), disk("/data/art", 10)))
    assert not_covered(source) == found
