"""Secrets at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hosts.vault import SealBroken, seal, unseal

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings


@pytest.mark.parametrize("secret", ["S3cr3t$x", "grün\nzwei Zeilen", "x" * 10_000])
def test_what_was_sealed_comes_back(secret: str) -> None:
    assert unseal(seal(secret)) == secret


def test_nothing_stays_nothing() -> None:
    assert (seal(""), unseal("")) == ("", "")


def test_a_seal_shows_nothing_and_is_never_the_same_twice() -> None:
    first, second = seal("S3cr3t"), seal("S3cr3t")
    assert first != second
    assert "S3cr3t" not in first


def test_another_master_key_opens_nothing(settings: Settings) -> None:  # case E01
    sealed = seal("S3cr3t")
    settings.PIHERDER_MASTER_KEYS = ["another key"]
    with pytest.raises(SealBroken, match=r"put back the master\.key") as broken:
        unseal(sealed)
    assert broken.value.__suppress_context__


def test_an_older_master_key_still_opens_and_the_first_seals(settings: Settings) -> None:
    settings.PIHERDER_MASTER_KEYS = ["old"]
    sealed = seal("S3cr3t")
    settings.PIHERDER_MASTER_KEYS = ["new", "old"]
    assert unseal(sealed) == "S3cr3t"
    resealed = seal("S3cr3t")
    settings.PIHERDER_MASTER_KEYS = ["new"]
    assert unseal(resealed) == "S3cr3t"


@pytest.mark.parametrize("damage", ["x", "gAAAAAB", "grün"])
def test_what_is_no_seal_is_broken(damage: str) -> None:
    with pytest.raises(SealBroken):
        unseal(damage)
