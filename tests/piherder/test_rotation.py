"""A new master key for every stored secret, in this process."""

from __future__ import annotations

import base64
import hashlib
import os
import time
from typing import TYPE_CHECKING

import pytest
from cryptography.fernet import Fernet

from hosts.models import Credential, Host
from hosts.vault import fingerprint_of, key_fingerprint, opens, seal, unseal
from piherder import rotation
from piherder.key_file import KeyFile
from piherder.keys import SEALED, is_weak
from piherder.rotation import RotationRefused, finish, rotate
from tests.commands import herder
from tests.factories import make_credential, make_host

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db
OLD = "k8Zr2mVx7Lq0Tn5Bd9Wf3Hs6Jy1Pc4Ga"


@pytest.fixture
def keys(tmp_path: Path, settings: Settings) -> KeyFile:
    """The key file of this installation, with one key that is a day old."""
    settings.DATA = tmp_path
    settings.PIHERDER_MASTER_KEYS = made = KeyFile(tmp_path / "master.key")
    made.put([OLD])
    return made


@pytest.fixture
def host(keys: KeyFile) -> Host:
    """A host with a secret in every column."""
    host = make_host("pi1", credential=make_credential("key"), sudo_password_sealed=seal("S3cr3t"))
    Credential.objects.update(private_key_sealed=seal("private"))
    return host


def let_settle(keys: KeyFile) -> None:
    """As if the new key had been made longer ago than any page takes."""
    then = time.time() - rotation.SETTLED - 1
    os.utime(keys.path, (then, then))


def sealed_before(secret: str) -> str:
    """As a page seals that has read the old key only."""
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(OLD.encode()).digest())).encrypt(secret.encode()).decode()


def all_sealed() -> list[str]:
    stored = [*Credential.objects.values_list("private_key_sealed", flat=True)]
    return [*stored, *Host.objects.exclude(sudo_password_sealed="").values_list("sudo_password_sealed", flat=True)]


def secrets_of(host: Host) -> tuple[str, str]:
    host = Host.objects.select_related("credential").get(pk=host.pk)
    return unseal(host.credential.private_key_sealed), unseal(host.sudo_password_sealed)


# --- the first step ----------------------------------------------------------------------------------------------


def test_every_secret_is_sealed_with_the_new_key_and_the_old_one_stays_behind(keys: KeyFile, host: Host) -> None:
    done = rotate()
    assert (done.began, done.resealed, done.proven, done.old_keys, done.lost) == (True, 2, 2, 1, [])
    assert (len(keys), keys[1], is_weak(keys[0])) == (2, OLD, False)
    assert all(opens(keys[0], sealed) for sealed in all_sealed())
    assert secrets_of(host) == ("private", "S3cr3t")
    assert done.fingerprint == key_fingerprint() == fingerprint_of(keys[0]) != fingerprint_of(OLD)


def test_a_second_time_goes_on_with_the_same_new_key(keys: KeyFile, host: Host) -> None:
    rotate()
    before, sealed = list(keys), all_sealed()
    again = rotate()
    assert (again.began, again.resealed, again.proven) == (False, 0, 2)
    assert (list(keys), all_sealed()) == (before, sealed)


def test_nothing_stays_nothing(keys: KeyFile) -> None:
    host = make_host(credential=make_credential())
    Credential.objects.update(private_key_sealed=seal("private"))
    assert rotate().lost == []
    host.refresh_from_db()
    assert host.sudo_password_sealed == ""


def test_a_removed_host_is_not_forgotten(keys: KeyFile, host: Host) -> None:
    Host.objects.update(removed_at=host.created_at)
    assert rotate().resealed == 2


def test_many_rows_go_in_several_transactions(keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "BATCH", 10)
    for number in range(25):
        make_credential(f"key-{number}")
    Credential.objects.update(private_key_sealed=seal("private"))
    steps: list[str] = []
    assert rotate(steps.append).resealed == 25
    assert steps == ["key", "proof", *["batch"] * 3, *["proof"] * len(SEALED)]


def test_a_secret_that_is_changed_meanwhile_is_not_lost(keys: KeyFile, host: Host) -> None:
    def edit(step: str) -> None:
        if step == "batch" and secrets_of(host)[1] == "S3cr3t":
            Host.objects.update(sudo_password_sealed=sealed_before("edited"))

    rotate(edit)
    assert secrets_of(host) == ("private", "edited")
    assert all(opens(keys[0], sealed) for sealed in all_sealed())


def test_a_secret_that_changes_for_ever_ends_in_words(
    keys: KeyFile, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "PASSES", 3)

    def edit(step: str) -> None:
        if step == "batch":
            Host.objects.update(sudo_password_sealed=sealed_before("again"))

    with pytest.raises(RotationRefused, match=r"^Host\.sudo_password_sealed changed 3 times meanwhile: run it again"):
        rotate(edit)
    assert secrets_of(host) == ("private", "again")


def test_a_row_that_goes_meanwhile_is_no_trouble(keys: KeyFile, host: Host) -> None:
    other = make_credential("other")
    Credential.objects.filter(pk=other.pk).update(private_key_sealed=seal("x"))

    def delete(step: str) -> None:
        if step == "batch":
            Credential.objects.filter(pk=other.pk).delete()

    assert rotate(delete).proven == 2


def test_a_secret_that_no_key_opens_is_named_and_left(keys: KeyFile, host: Host) -> None:
    Host.objects.update(sudo_password_sealed="of another key")
    done = rotate()
    assert (done.resealed, done.proven, done.lost) == (1, 1, ["host pi1"])
    assert Host.objects.get().sudo_password_sealed == "of another key"


def test_a_weak_first_key_is_replaced_even_in_mid_rotation(keys: KeyFile, host: Host) -> None:
    keys.put(["changeme", OLD])
    assert rotate().began is True
    assert (list(keys)[1:], secrets_of(host)) == (["changeme", OLD], ("private", "S3cr3t"))


def test_two_rotations_do_not_run_at_once(keys: KeyFile, host: Host) -> None:
    def second(step: str) -> None:
        if step == "batch":
            rotate()

    with pytest.raises(RotationRefused, match="Another rotation is running"):
        rotate(second)
    assert rotate().proven == 2


# --- the second step ---------------------------------------------------------------------------------------------


def test_the_old_key_goes_when_all_is_proven(keys: KeyFile, host: Host) -> None:
    rotate()
    new = keys[0]
    let_settle(keys)
    done = finish()
    assert (list(keys), done.proven, done.resealed) == ([new], 2, 0)
    assert secrets_of(host) == ("private", "S3cr3t")


def test_the_end_seals_what_came_in_late_with_the_old_key(keys: KeyFile, host: Host) -> None:
    late = sealed_before("late")
    rotate()
    Host.objects.update(sudo_password_sealed=late)
    let_settle(keys)
    finish()
    assert secrets_of(host) == ("private", "late")


def test_what_comes_in_at_the_last_moment_is_sealed_from_memory(keys: KeyFile, host: Host) -> None:
    late = sealed_before("late")
    rotate()
    let_settle(keys)

    def store(step: str) -> None:
        if step == "dropped":
            Host.objects.update(sudo_password_sealed=late)

    done = finish(store)
    assert (len(keys), done.resealed) == (1, 1)
    assert secrets_of(host) == ("private", "late")


def test_the_end_waits_until_no_page_can_store_the_old_seal_any_more(keys: KeyFile, host: Host) -> None:
    rotate()
    with pytest.raises(RotationRefused, match=r"^The new key is only \d+ s old, .* finish in \d+ s\.$"):
        finish()
    assert keys[1] == OLD


def test_without_a_rotation_there_is_nothing_to_finish(keys: KeyFile) -> None:
    with pytest.raises(RotationRefused, match="No rotation is under way"):
        finish()
    assert list(keys) == [OLD]


# --- keys from the environment -----------------------------------------------------------------------------------


def test_a_key_of_the_environment_is_a_persons_to_change(keys: KeyFile, host: Host, settings: Settings) -> None:
    settings.PIHERDER_MASTER_KEYS = [OLD]
    with pytest.raises(RotationRefused, match="comes from PIHERDER_MASTER_KEYS: put the output of `python3 -c"):
        rotate()
    assert list(keys) == [OLD]


def test_two_keys_of_the_environment_are_used_and_proven(keys: KeyFile, host: Host, settings: Settings) -> None:
    new = OLD[::-1]
    settings.PIHERDER_MASTER_KEYS = [new, OLD]
    assert (rotate().resealed, finish().proven) == (2, 2)
    settings.PIHERDER_MASTER_KEYS = [new]
    assert secrets_of(host) == ("private", "S3cr3t")
    assert list(keys) == [OLD]


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command_says_what_holds_and_what_comes_next(keys: KeyFile, host: Host) -> None:
    ran = herder("rotate_master_key")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "A new key stands first in the key file.",
        "2 secrets sealed anew.",
        f"2 secrets opened with the new key alone; its fingerprint is {key_fingerprint()}.",
    ]
    assert ran.err.endswith("Then: ./herder rotate_master_key --finish\n")
    assert not any(key in ran.out + ran.err for key in keys)


def test_the_commands_end_says_that_the_old_key_is_gone(keys: KeyFile, host: Host) -> None:
    herder("rotate_master_key")
    let_settle(keys)
    ran = herder("rotate_master_key", "--finish")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "0 secrets sealed anew.")
    assert ran.err.startswith(f"The old key is gone. Copy {keys.path} to where you keep it")


def test_the_command_refuses_in_one_sentence(keys: KeyFile) -> None:
    ran = herder("rotate_master_key", "--finish")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


def test_the_command_names_what_no_key_opens(keys: KeyFile, host: Host) -> None:
    Host.objects.update(sudo_password_sealed="of another key")
    ran = herder("rotate_master_key")
    assert "No key opens the secret of host pi1; it was left as it is: type it again.\n" in ran.err


def test_the_command_tells_the_environment_what_to_do(keys: KeyFile, host: Host, settings: Settings) -> None:
    settings.PIHERDER_MASTER_KEYS = [OLD[::-1], OLD]
    assert herder("rotate_master_key").err.startswith("PIHERDER_MASTER_KEYS needs its first key alone now")
