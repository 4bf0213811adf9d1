"""Secrets at rest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from hosts.vault import SealBroken, fingerprint_of, key_fingerprint, master_keys, opens, reseal, seal, unseal
from piherder.key_file import KeyFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


# --- which key it is ---------------------------------------------------------------------------------------------


def test_a_fingerprint_names_the_key_that_seals(settings: Settings) -> None:
    settings.PIHERDER_MASTER_KEYS = ["new", "old"]
    assert key_fingerprint() == fingerprint_of("new") != fingerprint_of("old")
    assert (len(key_fingerprint()), int(key_fingerprint(), 16) > 0) == (16, True)


def test_a_fingerprint_stays_the_same_for_ever() -> None:
    assert fingerprint_of("a key") == "8df98f41ad473c8a"


def test_a_fingerprint_is_nothing_that_seals() -> None:
    derived = hashlib.sha256(b"a key").hexdigest()
    assert fingerprint_of("a key") not in derived


@pytest.mark.parametrize("use", [key_fingerprint, master_keys, lambda: seal("x"), lambda: unseal("x")])
def test_without_any_key_nothing_is_sealed_or_opened(settings: Settings, use: Callable[[], object]) -> None:
    settings.PIHERDER_MASTER_KEYS = []
    with pytest.raises(SealBroken, match=r"^There is no master key: put back the master\.key"):
        use()


# --- sealed anew -------------------------------------------------------------------------------------------------


def test_one_key_opens_what_it_sealed_and_nothing_else(settings: Settings) -> None:
    settings.PIHERDER_MASTER_KEYS = ["old"]
    sealed = seal("S3cr3t")
    assert (opens("old", sealed), opens("new", sealed), opens("old", "grün"), opens("old", "x")) == (
        True, False, False, False,
    )  # fmt: skip


def test_what_is_sealed_anew_opens_with_the_first_key_alone(settings: Settings) -> None:
    settings.PIHERDER_MASTER_KEYS = ["old"]
    anew = reseal(seal("S3cr3t"), ["new", "old"])
    assert opens("new", anew)
    assert not opens("old", anew)
    settings.PIHERDER_MASTER_KEYS = ["new"]
    assert unseal(anew) == "S3cr3t"


@pytest.mark.parametrize("damage", ["x", "gAAAAAB", "grün"])
def test_what_no_key_opens_is_not_sealed_anew(damage: str) -> None:
    with pytest.raises(SealBroken):
        reseal(damage, ["new", "old"])


def test_a_key_that_is_added_while_we_run_opens_and_seals(settings: Settings, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "master.key")
    keys.put(["old"])
    settings.PIHERDER_MASTER_KEYS = keys
    sealed = seal("S3cr3t")
    keys.put(["new", "old"])
    assert (unseal(sealed), opens("new", seal("x"))) == ("S3cr3t", True)
