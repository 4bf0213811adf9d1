"""How a user becomes root: the sudos that are about, played by small scripts, and what each is given on stdin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hosts.shell_words import refusal_sentence
from hosts.ssh import SudoRefused, connect
from tests.hosts.conftest import QUICK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hosts.ssh import Target
    from tests.hosts.conftest import MakeSshd, MakeTarget

PATH = "/usr/local/bin:/usr/bin:/bin"
ID = '#!/bin/sh\n[ "$1" = -u ] && { echo 1000; exit; }\nexec /usr/bin/id "$@"\n'
PASSWORD = "S3cr3t$x 'ü\""
# Reads one line, as sudo does; `{before}` and `{after}` are what this make of sudo says around it.
ASKS = """\
#!/bin/sh
[ "$1" = -n ] && {{ echo "sudo: a password is required" >&2; exit 1; }}
shift 4
{before}
IFS= read -r given
[ "$given" = "$(cat {secret})" ] || {{ echo "{wrong}" >&2; exit 1; }}
{after}
PATH={path}
exec "$@"
"""


@pytest.fixture
def host(make_sshd: MakeSshd, target_of: MakeTarget, tmp_path: Path) -> Callable[..., Target]:
    """A host whose user is not root and whose sudo is the given script."""

    def make(sudo: str, password: str | None = PASSWORD) -> Target:
        programs = tmp_path / "programs"
        programs.mkdir()
        for name, text in (("id", ID), ("sudo", sudo)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        return target_of(make_sshd(path=f"{programs}:{PATH}"), sudo_password=password)

    return make


def asks(folder: Path, before: str = "", after: str = "", wrong: str = "Sorry, try again.") -> str:
    secret = folder / "secret"
    secret.write_text(PASSWORD)
    return ASKS.format(before=before, after=after, wrong=wrong, secret=secret, path=PATH)


@pytest.mark.parametrize(
    "before",
    [
        "",
        'printf "[sudo: authenticate] Password: " >&2',  # sudo-rs
        'printf "[sudo] Passwort für pi: " >&2',
        'echo "We trust you have received the usual lecture" >&2',
        'echo "Password:"; echo piherder-',  # on stdout, and like the beginning of a mark of ours
        "head -c 20000 /dev/zero | tr '\\0' x >&2",
    ],
)
def test_no_words_of_sudo_disturb(host: Callable[..., Target], tmp_path: Path, before: str) -> None:  # case G11
    with connect(host(asks(tmp_path, before)), timeouts=QUICK) as shell:
        assert shell.sudo_mode() == "password"
        result = shell.run(["cat"], sudo=True, stdin=b"mine")
    assert (result.stdout, result.stderr) == ("mine", "")


def test_words_after_the_password_do_not_disturb(host: Callable[..., Target], tmp_path: Path) -> None:  # case G11
    after = 'echo "Place your finger on the reader" >&2; echo "Last login: today"'
    with connect(host(asks(tmp_path, after=after)), timeouts=QUICK) as shell:
        result = shell.script("echo out; echo err >&2; exit 3", sudo=True)
    assert (result.exit_status, result.stdout, result.stderr) == (3, "out\n", "err\n")


@pytest.mark.parametrize(
    "wrong",
    [
        "Sorry, try again.",
        "sudo: Authentication failed, try again.",  # sudo-rs
        "sudo: 1 incorrect password attempt",
        "Das hat nicht funktioniert, bitte nochmal probieren.",
    ],
)
def test_a_wrong_password_is_told_with_sudo_s_own_words(
    host: Callable[..., Target], tmp_path: Path, wrong: str
) -> None:  # case G11
    target = host(asks(tmp_path, wrong=wrong), "wrong")
    with connect(target, timeouts=QUICK) as shell, pytest.raises(SudoRefused) as refused:
        shell.run(["id"], sudo=True)
    assert wrong.rstrip(".") in str(refused.value)
    assert "did not accept the stored sudo password" in str(refused.value)


def test_a_wrong_password_stands_in_no_sentence(host: Callable[..., Target], tmp_path: Path) -> None:  # case G16
    target = host(asks(tmp_path), "wr0ng-S3cr3t")
    with connect(target, timeouts=QUICK) as shell, pytest.raises(SudoRefused) as refused:
        shell.run(["id"], sudo=True)
    assert "wr0ng-S3cr3t" not in str(refused.value)


def test_without_a_stored_password_none_is_sent(host: Callable[..., Target], tmp_path: Path) -> None:
    with connect(host(asks(tmp_path), None), timeouts=QUICK) as shell:
        assert shell.sudo_mode() == "none"
        with pytest.raises(SudoRefused, match="wants a password from"):
            shell.run(["id"], sudo=True)


def test_a_host_without_sudo_is_told_so(host: Callable[..., Target]) -> None:
    missing = '#!/bin/sh\necho "sh: 1: sudo: not found" >&2\nexit 127\n'
    with connect(host(missing), timeouts=QUICK) as shell, pytest.raises(SudoRefused, match="sudo is not installed"):
        shell.run(["id"], sudo=True)


def test_a_sudo_that_makes_nobody_root_is_no_sudo(host: Callable[..., Target]) -> None:
    with connect(host('#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n', None), timeouts=QUICK) as shell:
        assert shell.sudo_mode() == "none"


def test_a_command_without_sudo_runs_where_sudo_is_refused(host: Callable[..., Target]) -> None:
    with connect(host("#!/bin/sh\nexit 1\n", None), timeouts=QUICK) as shell:
        assert shell.run(["echo", "on"]).stdout == "on\n"


def test_the_way_to_root_is_asked_for_once(host: Callable[..., Target], tmp_path: Path) -> None:
    note = f"printf '%s\\n' \"$1\" >>{tmp_path}/calls"
    sudo = f'#!/bin/sh\n{note}\n[ "$1" = -n ] && shift\nPATH={PATH}\nexec "$@"\n'
    with connect(host(sudo, None), timeouts=QUICK) as shell:
        for _ in range(3):
            shell.run(["true"], sudo=True)
    assert (tmp_path / "calls").read_text().splitlines() == ["-n"] * 4


def test_variables_are_set_behind_sudo(host: Callable[..., Target], tmp_path: Path) -> None:  # case A16
    cleans = 'exec env -i PATH="$PATH" "$@"'  # as env_reset does
    sudo = asks(tmp_path).replace('exec "$@"', cleans)
    with connect(host(sudo), timeouts=QUICK) as shell:
        assert shell.script('echo "$LC_ALL $A"', sudo=True, env={"A": "a b"}).stdout == "C.UTF-8 a b\n"


@pytest.mark.parametrize(
    ("reason", "stored", "expected"),
    [
        ("", False, "(no reason given)"),
        ("\n \nsudo: a password is required\n\n", False, "(sudo: a password is required)"),
        ("lecture\nsudo: no", True, "did not accept the stored sudo password of pi (sudo: no)"),
        ("sudo: sorry, you must have a tty to run sudo", False, "“Defaults:pi !requiretty” and “pi ALL=(root)"),
        ("bash: sudo: command not found", True, "sudo is not installed on node-a"),
    ],
)
def test_the_sentence_of_a_refusal(reason: str, stored: bool, expected: str) -> None:  # case C05
    assert expected in refusal_sentence("node-a", "pi", reason, password_stored=stored)
