"""`add_host --password-stdin` against an sshd that takes passwords: used once, kept nowhere."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.apps import apps

from hosts.access import target_of
from hosts.host_keys import generate_key
from hosts.models import Credential, Host
from hosts.ssh import connect
from jobs import mutex
from piherder.demo.sshd import Sshd, SshdOptions
from tests.commands import Ran, herder
from tests.terminal import pipes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a system user whose password sshd checks"),
]


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine with a password, reached through an sshd that accepts it."""

    name: str
    password: str
    home: Path
    server: Sshd

    @property
    def authorized(self) -> Path:
        """The keys that open it."""
        return self.home / ".ssh" / "authorized_keys"

    def add(self, *words: str) -> Ran:
        """`add_host` with a made key and the password on standard input."""
        way = ("--address", "127.0.0.1", "--port", str(self.server.port), "--user", self.name)
        return herder(
            "add_host", "pi1", *way, "--generate-key", "--password-stdin",
            "--fingerprint", self.server.host_key_fingerprint, *words,
        )  # fmt: skip


def run(*argv: str, text: str = "") -> None:
    """A program that must succeed."""
    subprocess.run(argv, input=text, text=True, check=True, capture_output=True)


@pytest.fixture(scope="module")
def user() -> Iterator[tuple[str, str, Path]]:
    """Name, password and home of a user who is gone afterwards, home and all."""
    home = Path(tempfile.mkdtemp(prefix="piherder-user-"))
    name, password = f"ph{os.getpid()}", secrets.token_urlsafe(16)
    run("useradd", "--home-dir", str(home), "--no-create-home", "--shell", "/bin/sh", name)
    try:
        run("chpasswd", text=f"{name}:{password}\n")
        shutil.chown(home, name, name)
        yield name, password, home
    finally:
        subprocess.run(["userdel", name], check=False, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def account(user: tuple[str, str, Path], tmp_path: Path) -> Iterator[Account]:
    """The user behind an sshd of this test, with an empty home."""
    name, password, home = user
    lines = (f"Match User {name}", "PasswordAuthentication yes", f"AuthorizedKeysFile {home}/.ssh/authorized_keys")
    with Sshd(tmp_path / "sshd", "door", options=SshdOptions(extra=lines)) as server:
        yield Account(name, password, home, server)
    shutil.rmtree(home / ".ssh", ignore_errors=True)


def everything_stored() -> str:
    """All rows of all our tables as text."""
    models = [model for app in ("jobs", "hosts") for model in apps.get_app_config(app).get_models()]
    return repr([list(model._default_manager.values()) for model in models])


def test_the_password_puts_the_key_in_place_and_the_key_opens(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipes(monkeypatch, f"{account.password}\n")
    ran = account.add("--source", "/srv")
    assert (ran.code, ran.err) == (0, ""), account.server.log.read_text()[-2000:]
    assert ran.out.endswith("Next: ./herder test_host pi1\n")
    connect(target_of(Host.herd.get())).close()


def test_the_key_file_belongs_to_the_user_alone(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    pipes(monkeypatch, f"{account.password}\n")
    account.add()
    assert account.authorized.read_text().strip() == Credential.objects.get().public_key.strip()
    assert account.authorized.owner() == account.name
    assert stat.S_IMODE(account.authorized.stat().st_mode) == 0o600
    assert stat.S_IMODE(account.authorized.parent.stat().st_mode) == 0o700


def test_a_key_file_that_others_could_read_is_closed(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    account.authorized.parent.mkdir()
    account.authorized.write_text("ssh-ed25519 AAAA someone else")
    account.authorized.chmod(0o644)
    for path in (account.authorized, account.authorized.parent):
        shutil.chown(path, account.name, account.name)
    pipes(monkeypatch, f"{account.password}\n")
    assert account.add().code == 0
    assert stat.S_IMODE(account.authorized.stat().st_mode) == 0o600
    assert account.authorized.read_text().splitlines()[0] == "ssh-ed25519 AAAA someone else"


def test_the_password_is_stored_nowhere_and_shown_nowhere(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    pipes(monkeypatch, f"{account.password}\n")
    ran = account.add()
    assert ran.code == 0
    assert account.password not in ran.out + ran.err + everything_stored()
    keys = mutex.client().keys("*")
    assert not [key for key in keys if account.password in str(mutex.client().dump(key))]
    assert account.password not in account.server.log.read_text()
    assert Host.herd.get().sudo_password_sealed == ""


def test_afterwards_the_password_is_not_needed_and_rights_are_told(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipes(monkeypatch, f"{account.password}\n")
    account.add("--source", str(account.home))
    (found,) = [check for check in herder("test_host", "pi1", "--json").document["checks"] if check["name"] == "sudo"]
    assert found["words"] == "no root: only what this user may read is backed up"


def test_a_source_that_the_user_may_not_read_is_named(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    pipes(monkeypatch, f"{account.password}\n")
    account.add("--source", "/root")
    ran = herder("test_host", "pi1")
    assert ran.code == 1
    assert "/root cannot be read on pi1 by this user: allow sudo for rsync, or its group\n" in ran.err


@pytest.fixture
def sudoers(account: Account) -> Iterator[Callable[[str], None]]:
    """Gives the user a line of sudoers, gone afterwards."""
    file = Path("/etc/sudoers.d") / account.name

    def allow(what: str) -> None:
        file.write_text(f"{account.name} ALL=(root) {what}\n")
        file.chmod(0o440)

    yield allow
    file.unlink(missing_ok=True)


def added_with_sources(account: Account, monkeypatch: pytest.MonkeyPatch, secret: Path) -> None:
    """The host with a folder that only root may read and one that is not there; the sudo password is stored."""
    (secret / "inside").mkdir(parents=True)
    secret.chmod(0o700)
    pipes(monkeypatch, f"{account.password}\n")
    assert account.add("--source", str(secret / "inside"), "--source", str(secret / "nowhere")).code == 0
    pipes(monkeypatch, f"{account.password}\n")
    assert herder("edit_host", "pi1", "--sudo-password-stdin").code == 0


def looked(*names: str) -> list[str]:
    """What `test_host` says of these."""
    words = {check["name"]: check["words"] for check in herder("test_host", "pi1", "--json").document["checks"]}
    return [words[name] for name in names]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("NOPASSWD: /usr/bin/rsync", "rsync by sudo without a password: backups read everything"),
        ("NOPASSWD: ALL", "root by sudo without a password"),
    ],
)
def test_a_login_that_may_run_rsync_as_root_sees_its_sources_as_copies_do(
    account: Account, sudoers: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, line: str, words: str
) -> None:
    secret = account.home / f"secret-{len(words)}"
    sudoers(line)
    added_with_sources(account, monkeypatch, secret)
    found = looked("sudo", f"source {secret}/inside", f"source {secret}/nowhere")
    assert found == [words, "readable", "missing"]


def test_a_sudo_password_that_copies_never_use_opens_no_source(
    account: Account, sudoers: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = account.home / "secret"
    sudoers("ALL")
    added_with_sources(account, monkeypatch, secret)
    words, found = looked("sudo", f"source {secret}/inside")
    assert words.startswith("root by sudo with the stored password, which backups never use: only what this user may")
    assert found == "unreadable"


@pytest.mark.parametrize("wrong", ["PLANTED", "pässwörd", " "])
def test_a_wrong_password_is_one_sentence_and_leaves_nothing(
    wrong: str, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipes(monkeypatch, f"{wrong}\n")
    ran = account.add()
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert f"does not let {account.name} in with this password" in ran.err
    assert "PLANTED" not in ran.err
    assert not account.authorized.exists()
    assert not Host.objects.exists()


def test_only_the_first_line_is_the_password(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    pipes(monkeypatch, f"{account.password}\r\nanother line\n")
    assert account.add().code == 0


def test_a_home_that_cannot_be_written_is_said(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    (account.home / ".ssh").write_text("a file where a folder should be")
    pipes(monkeypatch, f"{account.password}\n")
    ran = account.add()
    (account.home / ".ssh").unlink()
    assert ran.code == 1
    assert "The key could not be written on pi1" in ran.err
    assert not Host.objects.exists()


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_key_of_a_file_is_put_beside_anothers(
    end: str, account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "id").write_text(generate_key("mine")[0])
    account.authorized.parent.mkdir()
    account.authorized.write_text(generate_key("another")[1] + end)
    run("chown", "-R", account.name, str(account.authorized.parent))
    pipes(monkeypatch, f"{account.password}\n")
    ran = herder(
        "add_host", "pi1", "--address", "127.0.0.1", "--port", str(account.server.port), "--user", account.name,
        "--key", str(tmp_path / "id"), "--password-stdin", "--trust-first-key",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    assert len(account.authorized.read_text().splitlines()) == 2
    connect(target_of(Host.herd.get())).close()


def test_a_key_that_is_there_already_is_not_written_twice(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "id").write_text(generate_key("mine")[0])
    for name in ("first", "second"):
        pipes(monkeypatch, f"{account.password}\n")
        ran = herder(
            "add_host", name, "--address", "127.0.0.1", "--port", str(account.server.port), "--user", account.name,
            "--key", str(tmp_path / "id"), "--password-stdin", "--trust-first-key",
        )  # fmt: skip
        assert ran.code == 0
    assert len(account.authorized.read_text().splitlines()) == 1
    assert Credential.objects.count() == 1
