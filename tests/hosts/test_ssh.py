"""Commands over a real sshd: what comes back, how it is quoted, sudo, jump hosts, other login shells."""

import hashlib
import shutil
import time
from pathlib import Path

import pytest

from hosts.ssh import HostDown, HostRefused, Shell, SudoRefused, Target, connect
from hosts.ssh_errors import CommandTimeout
from piherder.demo.sshd import Sshd
from tests.hosts.conftest import QUICK, MakeSshd, MakeTarget

MIB = 1024 * 1024
ODD_WORDS = [
    "",
    "a b",
    "it's",
    '"',
    "$HOME",
    "`id`",
    "\\n",
    "*",
    "--",
    "-x",
    "!!",
    "a\nb",
    "ü",
    "\udcff",
    "%s",
    "a;b&&c",
]


class Told:
    """Collects what ``on_line`` is given."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, stream: str, text: str) -> None:
        self.lines.append((stream, text))


def test_streams_and_exit_status_come_back_apart(shell: Shell) -> None:
    result = shell.script("echo out; echo err >&2; exit 7")
    assert (result.exit_status, result.stdout, result.stderr, result.cut) == (7, "out\n", "err\n", False)


def test_output_keeps_its_last_line_without_newline(shell: Shell) -> None:
    assert shell.run(["printf", "%s", "no newline"]).stdout == "no newline"


def test_many_commands_share_one_login(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server = make_sshd()
    with connect(target_of(server)) as shell:
        assert [shell.run(["echo", str(n)]).stdout for n in range(15)] == [f"{n}\n" for n in range(15)]
    assert server.log.read_text().count("Accepted publickey") == 1


@pytest.mark.parametrize("word", ODD_WORDS)
def test_every_argument_arrives_as_it_is(shell: Shell, word: str) -> None:
    result = shell.script('printf "%s" "$W" | od -An -tx1', env={"W": word})
    same = shell.run(["sh", "-c", 'printf "%s" "$1" | od -An -tx1', "sh", word])
    assert bytes.fromhex(result.stdout) == bytes.fromhex(same.stdout) == word.encode("utf-8", "surrogateescape")


def test_program_that_does_not_exist_is_a_result(shell: Shell) -> None:
    result = shell.run(["no-such-program"])
    assert result.exit_status == 127
    assert "no-such-program" in result.stderr


def test_command_killed_by_a_signal_tells_so(shell: Shell) -> None:
    assert shell.run(["sh", "-c", "kill -9 $$"]).exit_status == 128 + 9


def test_stdin_is_sent_whole_and_closed(shell: Shell) -> None:
    data = bytes(range(256)) * 4 * 1024 * 3
    told = shell.run(["sha256sum"], stdin=data).stdout.split()[0]
    assert told == hashlib.sha256(data).hexdigest()


def test_stdin_that_is_not_read_does_not_block(shell: Shell) -> None:
    assert shell.run(["true"], stdin=b"x" * 8 * MIB).exit_status == 0


def test_stdin_is_empty_when_none_is_given(shell: Shell) -> None:
    assert shell.run(["cat"], timeout=10).stdout == ""


def test_long_script_is_no_argument(shell: Shell) -> None:
    text = "\n".join(f"v{n}='{'x' * 90}'" for n in range(1500)) + "\necho $v1499 | wc -c"
    assert shell.script(text).stdout.strip() == "91"


def test_no_terminal_is_given(shell: Shell) -> None:  # case A05
    result = shell.script('for n in 0 1 2; do [ -t "$n" ] && echo tty; done; ls -l /dev/tty >/dev/null; : </dev/tty')
    assert "tty\n" not in result.stdout
    assert result.exit_status != 0


def test_ten_mebibytes_on_both_streams(shell: Shell) -> None:  # case G03
    script = "head -c 10485760 /dev/zero | tr '\\0' o & head -c 10485760 /dev/zero | tr '\\0' e >&2; wait; echo last"
    result = shell.script(script, timeout=60)
    assert result.exit_status == 0
    assert result.cut
    assert "[cut here]" in result.stdout
    assert result.stdout.endswith("last\n")
    assert len(result.stdout) < 4 * MIB + 100
    assert set(result.stderr.replace("\n[cut here]\n", "")) == {"e"}


def test_limit_is_settable(shell: Shell) -> None:
    result = shell.run(["sh", "-c", "seq 1 10000"], limit=100)
    assert result.cut
    assert result.stdout.startswith("1\n2\n")
    assert result.stdout.endswith("9999\n10000\n")


def test_latin1_and_nul_bytes_do_not_end_the_command(shell: Shell) -> None:  # case G08
    result = shell.script(r"printf 'Gr\374\337e\n\000after\n'")
    assert (result.exit_status, result.stdout) == (0, "Gr\ufffd\ufffde\nafter\n")


def test_progress_is_one_line(shell: Shell) -> None:  # case G14
    told = Told()
    shell.script(r"for n in $(seq 1 2000); do printf '\r %s%%' $n; done; printf '\ndone\r\n'", on_line=told)
    assert told.lines == [("stdout", " 2000%"), ("stdout", "done")]


def test_lines_are_told_while_the_command_runs(shell: Shell) -> None:
    times: list[float] = []
    shell.script("echo first; sleep 1; echo second >&2", on_line=lambda *_: times.append(time.monotonic()))
    assert times[1] - times[0] > 0.7


def test_child_left_behind_is_not_waited_for(shell: Shell) -> None:
    started = time.monotonic()
    result = shell.script("sleep 30 & echo started $!")
    assert result.stdout.startswith("started")
    assert time.monotonic() - started < 10
    shell.run(["kill", result.stdout.split()[1]])


def test_environment_reaches_the_command(shell: Shell) -> None:
    result = shell.run(["sh", "-c", 'echo "$LC_ALL|$A"'], env={"A": "it's $HOME"})
    assert result.stdout == "C.UTF-8|it's $HOME\n"


def test_server_host_key_is_the_pinned_one(shell: Shell, sshd: Sshd) -> None:
    assert shell.server_host_key == sshd.host_key


def test_no_command_after_close(sshd: Sshd, target_of: MakeTarget) -> None:
    shell = connect(target_of(sshd))
    shell.close()
    shell.close()
    assert not shell.alive


def test_time_out_ends_the_command(shell: Shell, sshd: Sshd) -> None:
    started = time.monotonic()
    with pytest.raises(CommandTimeout, match="calm"):
        shell.run(["sleep", "4711"], timeout=0.5)
    assert time.monotonic() - started < 10
    running = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in sshd.processes()]
    assert b"sleep\x004711\0" not in running


FISH = shutil.which("fish") or "fish"


@pytest.mark.parametrize("word", ODD_WORDS)
def test_login_shell_fish(make_sshd: MakeSshd, target_of: MakeTarget, word: str) -> None:  # case G09
    server = make_sshd(force_command=f'exec {FISH} -c "$SSH_ORIGINAL_COMMAND"')
    with connect(target_of(server)) as shell:
        result = shell.script('A=1 sh -c \'echo "$A"\' && echo $(printf "%s" "$W" | od -An -tx1)', env={"W": word})
    first, _, rest = result.stdout.partition("\n")
    assert (first, bytes.fromhex(rest)) == ("1", word.encode("utf-8", "surrogateescape"))


def test_login_shell_dash(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server = make_sshd(force_command='exec dash -c "$SSH_ORIGINAL_COMMAND"')
    with connect(target_of(server)) as shell:
        assert shell.run(["echo", "it's"]).stdout == "it's\n"


def test_login_text_does_not_reach_the_result(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    told = Told()
    server = make_sshd(noise="Welcome to Pi!\npiherder-\n\tTemp 48 C")
    with connect(target_of(server)) as shell:
        result = shell.script("echo out; echo err >&2", on_line=told)
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert sorted(told.lines) == [("stderr", "err"), ("stdout", "out")]


def test_listing_of_processes_shows_no_marker_as_one(shell: Shell) -> None:
    """The nonce stands in the arguments of our own shells; output that quotes them must come back whole."""
    result = shell.script("for f in /proc/self /proc/$PPID; do tr '\\0' ' ' <$f/cmdline; echo; done; echo whole")
    assert "piherder-" in result.stdout
    assert result.stdout.endswith("whole\n")


def test_host_without_rsync(make_sshd: MakeSshd, target_of: MakeTarget, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "dd", "setsid", "bash"):
        (programs / name).symlink_to(shutil.which(name) or name)
    with connect(target_of(make_sshd(path=str(programs)))) as shell:
        assert shell.run(["rsync", "--version"]).exit_status == 127


# --- sudo. Real sudo lets root do all, so what it refuses to others is played by a small sudo of our own.

FAKE_ID = '#!/bin/sh\n[ "$1" = -u ] && { echo 1000; exit; }\nexec /usr/bin/id "$@"\n'
REAL_PATH = "/usr/local/bin:/usr/bin:/bin"
ASKS = """\
#!/bin/sh
case "$1" in -n) echo "sudo: {words}" >&2; exit 1;; esac
[ "$1 $2 $3" = "-k -S -p" ] || exit 9
shift 4
for try in 1 2 3; do
  IFS= read -r given || {{ echo "sudo: no password was provided" >&2; exit 1; }}
  [ "$given" = 'S3cr3t$x' ] && {{ PATH={path}; exec "$@"; }}
  echo attempt >>{attempts}
  echo "Authentication failed, try again." >&2
done
exit 1
"""


@pytest.fixture
def sudo_host(make_sshd: MakeSshd, target_of: MakeTarget, tmp_path: Path) -> "SudoHost":
    return SudoHost(make_sshd, target_of, tmp_path)


class SudoHost:
    """A host whose user is not root and whose sudo is the given script."""

    def __init__(self, make_sshd: MakeSshd, target_of: MakeTarget, folder: Path) -> None:
        self._make_sshd, self._target_of = make_sshd, target_of
        self._programs = folder / "programs"
        self.attempts = folder / "attempts"
        self.attempts.touch()
        self._programs.mkdir()

    def asks(self, words: str = "a password is required") -> str:
        return ASKS.format(words=words, path=REAL_PATH, attempts=self.attempts)

    def target(self, sudo: str, password: str | None = None) -> Target:
        for name, text in (("id", FAKE_ID), ("sudo", sudo)):
            (self._programs / name).write_text(text)
            (self._programs / name).chmod(0o755)
        self.server = self._make_sshd(path=f"{self._programs}:{REAL_PATH}")
        return self._target_of(self.server, sudo_password=password)


def test_root_needs_no_sudo(shell: Shell) -> None:
    assert shell.sudo_mode() == "root"
    assert shell.run(["id", "-u"], sudo=True).stdout == "0\n"


def test_sudo_without_password(sudo_host: SudoHost) -> None:
    with connect(sudo_host.target('#!/bin/sh\nexec /usr/bin/sudo "$@"\n')) as shell:
        assert shell.sudo_mode() == "passwordless"
        result = shell.run(["sh", "-c", 'id -u; echo "$A"; cat'], sudo=True, env={"A": "x y"}, stdin=b"given")
    assert result.stdout == "0\nx y\ngiven"


@pytest.mark.parametrize("words", ["a password is required", "interactive authentication is required", "Passwort?"])
def test_sudo_with_stored_password(sudo_host: SudoHost, words: str) -> None:  # case G11
    with connect(sudo_host.target(sudo_host.asks(words), "S3cr3t$x")) as shell:
        assert shell.sudo_mode() == "password"
        result = shell.run(["sh", "-c", 'id -u; echo "$A"; cat'], sudo=True, env={"A": "x y"}, stdin=b"given")
    assert (result.stdout, result.stderr) == ("0\nx y\ngiven", "")


def test_wrong_sudo_password_is_tried_once(sudo_host: SudoHost) -> None:
    with connect(sudo_host.target(sudo_host.asks(), "wrong")) as shell:
        for _ in range(2):
            with pytest.raises(SudoRefused, match="did not accept the stored sudo password"):
                shell.run(["id"], sudo=True)
    assert sudo_host.attempts.read_text() == "attempt\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("sudo: sorry, you must have a tty to run sudo", "!requiretty"),
        ("sudo: a terminal is required to read the password", "ALL=(root) NOPASSWD: ALL"),
        ("sudo: interactive authentication is required", "/etc/sudoers.d/piherder"),
    ],
)
def test_refusal_names_the_sudoers_line(sudo_host: SudoHost, said: str, expected: str) -> None:  # case C05
    with connect(sudo_host.target(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')) as shell:
        assert shell.sudo_mode() == "none"
        with pytest.raises(SudoRefused) as refused:
            shell.run(["id"], sudo=True)
    assert expected in str(refused.value)
    assert said in str(refused.value)


def test_sudo_that_turns_strict_is_a_refusal_not_a_result(sudo_host: SudoHost, tmp_path: Path) -> None:
    flag = tmp_path / "strict"
    sudo = f'#!/bin/sh\n[ -e {flag} ] && {{ echo "sudo: no more" >&2; exit 1; }}\nexec /usr/bin/sudo "$@"\n'
    with connect(sudo_host.target(sudo)) as shell:
        assert shell.sudo_mode() == "passwordless"
        flag.touch()
        with pytest.raises(SudoRefused, match="no more"):
            shell.run(["id"], sudo=True)


def test_password_that_sudo_does_not_read_is_not_given_to_the_command(sudo_host: SudoHost) -> None:
    """Sudoers may free single programs of the password, which then waits unread on stdin."""
    sudo = f'#!/bin/sh\n[ "$1" = -n ] && exit 1\nshift 4\nPATH={REAL_PATH}\nexec "$@"\n'
    with connect(sudo_host.target(sudo, "S3cr3t$x")) as shell:
        assert shell.run(["cat"], sudo=True, stdin=b"mine").stdout == "mine"


def test_secrets_are_in_no_argument_list(sudo_host: SudoHost) -> None:  # case G16
    seen: set[bytes] = set()

    def look() -> None:
        for pid in sudo_host.server.processes():
            file = Path(f"/proc/{pid}/cmdline")
            seen.add(file.read_bytes() if file.exists() else b"")

    with connect(sudo_host.target(sudo_host.asks(), "S3cr3t$x"), check=look) as shell:
        shell.script("sleep 1; : login-secret", sudo=True, env={"TOKEN": "t0ken"})
    every = b"\n".join(seen)
    assert b"sleep" in every
    assert not [secret for secret in (b"S3cr3t", b"t0ken", b"login-secret") if secret in every]


def test_secrets_are_in_no_representation(sshd: Sshd, target_of: MakeTarget) -> None:
    text = repr(target_of(sshd, private_key="PRIVATE", sudo_password="S3cr3t", login_password="Pa55"))
    assert not [secret for secret in ("PRIVATE", "S3cr3t", "Pa55") if secret in text]


# --- jump hosts


def test_jump_host(make_sshd: MakeSshd, target_of: MakeTarget, sshd: Sshd) -> None:
    jump = make_sshd("jump")
    with connect(target_of(sshd, jump=target_of(jump))) as shell:
        assert shell.run(["echo", "through"]).stdout == "through\n"
        assert len(jump.connections()) >= 1
    assert "Accepted publickey" in jump.log.read_text()


def test_jump_host_has_its_own_pin(make_sshd: MakeSshd, target_of: MakeTarget, sshd: Sshd) -> None:
    jump = target_of(make_sshd("jump"), pins=(sshd.host_key,))
    with pytest.raises(HostRefused, match="jump") as refused:
        connect(target_of(sshd, jump=jump))
    assert refused.value.code == "host_key_changed"


def test_jump_host_that_cannot_reach_the_host(make_sshd: MakeSshd, target_of: MakeTarget, sshd: Sshd) -> None:
    jump = make_sshd("jump", extra=("AllowTcpForwarding no",))
    with pytest.raises(HostDown, match="jump host jump cannot reach"):
        connect(target_of(sshd, jump=target_of(jump)), timeouts=QUICK)


def test_host_key_behind_a_jump_host_is_pinned_too(make_sshd: MakeSshd, target_of: MakeTarget, sshd: Sshd) -> None:
    jump = make_sshd("jump")
    with pytest.raises(HostRefused, match="calm"):
        connect(target_of(sshd, pins=(jump.host_key,), jump=target_of(jump)))
