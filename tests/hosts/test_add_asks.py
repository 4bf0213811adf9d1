"""`add_host` and its questions at a terminal, ways through other hosts, keys that cannot be used, hosts that return."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts.models import Credential, Host
from tests.commands import Ran, herder, refused
from tests.factories import make_host
from tests.hosts.rows import make_generation, make_source
from tests.terminal import pipes, types

if TYPE_CHECKING:
    from pathlib import Path

    from piherder.demo.sshd import Sshd
    from tests.hosts.conftest import MakeSshd

pytestmark = pytest.mark.django_db


@pytest.fixture
def key_file(tmp_path: Path, login_key: tuple[str, str]) -> str:
    """The key that opens the servers of these tests."""
    (tmp_path / "id").write_text(login_key[0])
    return str(tmp_path / "id")


def add(server: Sshd, key_file: str, *words: str, name: str = "pi1") -> Ran:
    return herder("add_host", name, "--address", "127.0.0.1", "--port", str(server.port), "--key", key_file, *words)


# --- the question about the host key


def test_a_person_compares_the_key_and_says_yes(sshd: Sshd, key_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    types(monkeypatch, "yes\n")
    ran = add(sshd, key_file)
    assert ran.code == 0
    assert f"pi1 (127.0.0.1 port {sshd.port}) shows:\n  {sshd.host_key_fingerprint}  ed25519\n" in ran.err
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in ran.err
    assert Host.herd.get().keys.get().fingerprint == sshd.host_key_fingerprint


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "ye\n"])
def test_anything_but_yes_stores_nothing(
    answer: str, sshd: Sshd, key_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    types(monkeypatch, answer)
    ran = add(sshd, key_file)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith("[y/N] Nothing was stored.\n")
    assert not Host.objects.exists()


def test_every_key_that_is_shown_is_listed(make_sshd: MakeSshd, key_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_sshd(key_types=("ed25519", "ecdsa", "rsa"))
    types(monkeypatch, "n\n")
    assert add(server, key_file).err.count("  SHA256:") == 3


def test_of_several_keys_only_the_compared_one_is_pinned(
    make_sshd: MakeSshd, key_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_sshd(key_types=("ed25519", "ecdsa", "rsa"))
    types(monkeypatch, "y\n")
    ran = add(server, key_file)
    assert [key.key_type for key in Host.herd.get().keys.all()] == ["ssh-ed25519"]
    assert ran.err.index(server.host_key_fingerprint) < ran.err.index("with --fingerprint:")


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_the_line_to_compare_with_names_the_kind_that_is_pinned(
    kind: str, make_sshd: MakeSshd, key_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    types(monkeypatch, "y\n")
    ran = add(make_sshd(key_types=(kind,)), key_file)
    assert f"ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub\n" in ran.err


def test_keys_that_are_trusted_unseen_are_all_pinned(make_sshd: MakeSshd, key_file: str) -> None:
    add(make_sshd(key_types=("ed25519", "rsa")), key_file, "--trust-first-key")
    assert {key.key_type for key in Host.herd.get().keys.all()} == {"ssh-ed25519", "ssh-rsa"}


def test_only_the_key_that_was_told_is_pinned(make_sshd: MakeSshd, key_file: str) -> None:
    server = make_sshd(key_types=("ed25519", "ecdsa"))
    assert add(server, key_file, "--fingerprint", server.host_key_fingerprint).code == 0
    assert [key.fingerprint for key in Host.herd.get().keys.all()] == [server.host_key_fingerprint]


def test_a_fingerprint_may_come_without_its_prefix(sshd: Sshd, key_file: str) -> None:
    bare = sshd.host_key_fingerprint.removeprefix("SHA256:")
    assert add(sshd, key_file, "--fingerprint", bare).code == 0


def test_a_fingerprint_that_differs_in_case_is_another_one(sshd: Sshd, key_file: str) -> None:
    ran = add(sshd, key_file, "--fingerprint", sshd.host_key_fingerprint.swapcase().replace("sha256", "SHA256"))
    assert (ran.code, ran.out) == (1, "")
    assert sshd.host_key_fingerprint in ran.err


def test_trust_and_comparison_exclude_each_other(key_file: str) -> None:
    words = ("--key", key_file, "--fingerprint", "x", "--trust-first-key")
    assert "not allowed with argument" in refused("add_host", "pi1", *words)


# --- keys


@pytest.mark.parametrize("text", ["", "nonsense", "ssh-ed25519 AAAA public"])
def test_a_file_that_is_no_private_key_is_wrong_use(text: str, tmp_path: Path) -> None:
    (tmp_path / "id").write_text(text)
    assert "cannot be read" in refused("add_host", "pi1", "--key", str(tmp_path / "id"))


def test_a_file_that_is_no_text_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "id").write_bytes(b"\xff\xfe\x00")
    assert refused("add_host", "pi1", "--key", str(tmp_path / "id")).endswith("is no text file: name the private key.")


def test_a_folder_is_no_key(tmp_path: Path) -> None:
    assert refused("add_host", "pi1", "--key", str(tmp_path)) == f"{tmp_path} cannot be read: Is a directory."


def test_a_key_behind_a_passphrase_is_refused_and_never_asked_for(key_file: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "PLANTED", "-f", key_file], check=True, capture_output=True)
    words = refused("add_host", "pi1", "--key", key_file)
    assert "passphrase" in words
    assert "PLANTED" not in words


def test_a_key_and_a_made_key_exclude_each_other(key_file: str) -> None:
    assert "not allowed with argument" in refused("add_host", "pi1", "--key", key_file, "--generate-key")


def test_a_made_key_names_its_host_and_its_private_half_is_not_shown(make_sshd: MakeSshd) -> None:
    server = make_sshd()
    words = ("--address", "127.0.0.1", "--port", str(server.port), "--generate-key", "--trust-first-key")
    ran = herder("add_host", "pi1", *words, "--user", "ann")
    assert "Put this line into ~ann/.ssh/authorized_keys on the host, then ./herder test_host pi1:" in ran.out
    assert ran.out.splitlines()[-1].endswith(" piherder@pi1")
    assert "PRIVATE" not in ran.out + ran.err


def test_the_key_of_a_second_host_is_stored_once(sshd: Sshd, key_file: str) -> None:
    for name in ("pi1", "pi2"):
        assert add(sshd, key_file, "--trust-first-key", name=name).code == 0
    assert Credential.objects.count() == 1


# --- names and fields


@pytest.mark.parametrize("name", ["", "-x", ".hidden", "a/b", "..", "a b", "grün", "a\nb", "_x"])
def test_names_that_no_folder_may_have(name: str, key_file: str) -> None:
    assert "cannot be a name" in refused("add_host", "--key", key_file, "--", name)


def test_a_name_that_is_too_long_stores_nothing(sshd: Sshd, key_file: str) -> None:
    ran = add(sshd, key_file, "--trust-first-key", name="a" * 61)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert not Host.objects.exists()


@pytest.mark.parametrize("port", ["0", "-1", "65536", "99999999999999999999"])
def test_ports_that_are_none(port: str, key_file: str) -> None:
    assert refused("add_host", "pi1", "--key", key_file, f"--port={port}").startswith("--port must lie between")


def test_a_host_that_is_there_is_refused_before_it_is_contacted(key_file: str) -> None:
    make_host("pi1")
    assert refused("add_host", "pi1", "--key", key_file) == "There is already a host called pi1: use edit_host."


def test_an_address_that_no_server_knows_is_one_sentence(key_file: str) -> None:
    ran = herder("add_host", "pi1", "--address", "nobody.invalid", "--key", key_file)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


def test_the_name_is_the_address_when_none_is_given(sshd: Sshd, key_file: str) -> None:
    words = ("--port", str(sshd.port), "--key", key_file, "--trust-first-key")
    assert herder("add_host", "localhost", *words).code == 0
    assert Host.herd.get().address == "localhost"


@pytest.mark.parametrize("password", ["", "\n", "\r\n"])
def test_an_empty_password_is_wrong_use(
    password: str, sshd: Sshd, key_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipes(monkeypatch, password)
    ran = add(sshd, key_file, "--trust-first-key", "--password-stdin")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Standard input holds no password")


def test_every_exclude_is_that_of_every_source(sshd: Sshd, key_file: str) -> None:
    words = ("--source", "/srv/a b", "--source", "/home", "--exclude", "*.tmp", "--exclude", "- /x")
    ran = add(sshd, key_file, "--trust-first-key", *words)
    assert "2 sources" in ran.out
    found = dict(Host.herd.get().sources.values_list("path", "excludes"))
    assert found == {"/home": ["*.tmp", "- /x"], "/srv/a b": ["*.tmp", "- /x"]}


def test_sources_in_each_other_store_nothing(sshd: Sshd, key_file: str) -> None:
    ran = add(sshd, key_file, "--trust-first-key", "--source", "/srv", "--source", "/srv/data")
    assert (ran.code, ran.out) == (2, "")
    assert "lie in each other" in ran.err
    assert not Host.objects.exists()
    assert not Credential.objects.exists()


# --- ways and returns


def test_a_way_through_two_hosts(make_sshd: MakeSshd, sshd: Sshd, key_file: str) -> None:
    middle, inner = make_sshd("middle"), make_sshd("inner")
    add(sshd, key_file, "--trust-first-key", name="gate")
    add(middle, key_file, "--trust-first-key", "--jump", "gate", name="middle")
    assert add(inner, key_file, "--trust-first-key", "--jump", "middle", name="inner").code == 0
    assert herder("test_host", "inner").code == 0


def test_a_jump_host_that_is_down_is_the_one_that_is_named(make_sshd: MakeSshd, sshd: Sshd, key_file: str) -> None:
    gate = make_sshd("gate")
    add(gate, key_file, "--trust-first-key", name="gate")
    gate.stop()
    ran = add(sshd, key_file, "--trust-first-key", "--jump", "gate", name="inner")
    assert ran.code == 1
    assert ran.err.startswith("gate ")
    assert not Host.objects.filter(name="inner").exists()


def test_a_removed_host_is_no_way(key_file: str) -> None:
    make_host("gate", removed_at=timezone.now())
    assert refused("add_host", "pi1", "--key", key_file, "--jump", "gate").startswith("There is no host called gate")


def test_a_host_that_returns_has_what_was_kept_and_its_schedule(sshd: Sshd, key_file: str) -> None:
    add(sshd, key_file, "--trust-first-key", "--source", "/srv")
    kept = make_generation(Host.herd.get().sources.get())
    herder("remove_host", "pi1", "--yes")
    ran = add(sshd, key_file, "--trust-first-key", "--source", "/home")
    assert ran.out.startswith("pi1 is back, with 1 old source and 1 generation: root@127.0.0.1")
    assert Host.herd.get().sources.get(path="/srv").generations.get() == kept
    assert PeriodicTask.objects.get().enabled


def test_a_host_that_returns_without_a_schedule_has_none(sshd: Sshd, key_file: str) -> None:
    add(sshd, key_file, "--trust-first-key")
    herder("remove_host", "pi1", "--yes")
    add(sshd, key_file, "--trust-first-key", "--no-schedule")
    assert not PeriodicTask.objects.get().enabled


def test_a_host_that_returns_forgets_its_old_trouble(sshd: Sshd, key_file: str) -> None:
    gone = make_host("pi1", removed_at=timezone.now(), last_error="It was off.", last_error_at=timezone.now())
    make_source(gone)
    add(sshd, key_file, "--trust-first-key")
    gone.refresh_from_db()
    assert (gone.last_error, gone.last_error_at, gone.removed_at) == ("", None, None)
