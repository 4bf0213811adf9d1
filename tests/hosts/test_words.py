"""Numbers as people read them."""

from __future__ import annotations

import pytest

from hosts.words import count, size


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"),
        (3_400_000_000, "3.4 GB"), (2_500_000_000_000, "2.5 TB"), (4_200_000_000_000_000, "4200.0 TB"),
    ],
)  # fmt: skip
def test_sizes(number: int, words: str) -> None:
    assert size(number) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 files"), (1, "1 file"), (12_345, "12,345 files")])
def test_counts(number: int, words: str) -> None:
    assert count(number, "file") == words


def test_an_odd_plural_is_given() -> None:
    assert count(2, "copy", "copies") == "2 copies"
