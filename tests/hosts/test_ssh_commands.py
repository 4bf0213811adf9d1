"""What a command may be and leave, over a real sshd: every exit status, odd words, through every login shell."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import pytest

from hosts.shell_words import CUT_MARK, LINE_LIMIT
from hosts.ssh import Shell, connect
from tests.hosts.conftest import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.hosts.conftest import MakeSshd, MakeTarget

MIB = 1024 * 1024
# Every byte that some shell treats specially, in one word; a newline, a carriage return and a tab among them.
SPECIAL = "".join(chr(code) for code in range(1, 128) if not chr(code).isalnum()) + "ü☃\udcff"
SHELLS = ["sh", "dash", "bash", "fish"]


@pytest.fixture(params=SHELLS)
def any_shell(request: pytest.FixtureRequest, make_sshd: MakeSshd, target_of: MakeTarget) -> Iterator[Shell]:
    """A host whose users log in to this shell."""
    program = shutil.which(request.param)
    assert program
    server = make_sshd(force_command=f'exec {program} -c "$SSH_ORIGINAL_COMMAND"')
    with connect(target_of(server), timeouts=QUICK) as opened:
        yield opened


def raw(text: str) -> str:
    """The bytes of a word in hex, as `od` prints them without blanks."""
    return text.encode("utf-8", "surrogateescape").hex()


def echoed(hexes: str) -> str:
    return "".join(hexes.split())


# --- what is sent ------------------------------------------------------------------------------------------------


def test_every_special_character_passes_every_login_shell(any_shell: Shell) -> None:  # case G09
    result = any_shell.run(["sh", "-c", 'printf %s "$1" | od -An -v -tx1', "sh", SPECIAL])
    assert echoed(result.stdout) == raw(SPECIAL)


def test_every_special_character_may_stand_in_the_environment(any_shell: Shell) -> None:  # case G09
    result = any_shell.script('printf %s "$ODD" | od -An -v -tx1', env={"ODD": SPECIAL})
    assert echoed(result.stdout) == raw(SPECIAL)


def test_a_posix_script_runs_under_every_login_shell(any_shell: Shell) -> None:  # case G09
    text = "A=1 sh -c 'echo $A' && x=$(echo sub) && case $x in s*) echo \"$x\" ;; esac\nfor n in 1 2; do echo $n; done"
    assert any_shell.script(text).stdout.split() == ["1", "sub", "1", "2"]


def test_the_exit_status_passes_every_login_shell(any_shell: Shell) -> None:
    assert any_shell.script("exit 42").exit_status == 42


def test_stdin_passes_every_login_shell(any_shell: Shell) -> None:
    data = bytes(range(256)) * 100
    told = any_shell.run(["sha256sum"], stdin=data).stdout.split()[0]
    assert told == hashlib.sha256(data).hexdigest()


def test_a_word_may_be_long(shell: Shell) -> None:
    assert shell.run(["printf", "%s", "x" * 100_000]).stdout == "x" * 100_000


def test_many_words_stay_apart(shell: Shell) -> None:
    words = [f"{n} " for n in range(2000)]
    assert shell.run(["printf", "%s|", *words]).stdout == "|".join(words) + "|"


@pytest.mark.parametrize("value", ["", " ", "a\nb", "$(id)", "`id`", "'", '"', "\\", "=", "a=b", "-n", "\t"])
def test_a_variable_holds_what_it_was_given(shell: Shell, value: str) -> None:
    assert shell.script('printf "%s|" "$V"; printf %s "${V+set}"', env={"V": value}).stdout == f"{value}|set"


def test_many_variables_reach_the_command(shell: Shell) -> None:
    env = {f"V{n}": str(n) for n in range(300)}
    assert shell.script('echo "$V0 $V150 $V299"', env=env).stdout == "0 150 299\n"


def test_words_are_english_unless_asked_otherwise(shell: Shell) -> None:  # case A16
    assert shell.script('echo "$LC_ALL"').stdout == "C.UTF-8\n"
    assert shell.script('echo "$LC_ALL"', env={"LC_ALL": "POSIX"}).stdout == "POSIX\n"


def test_a_variable_of_one_command_is_not_in_the_next(shell: Shell) -> None:
    shell.script(":", env={"ONCE": "1"})
    assert shell.script('echo "[$ONCE]"').stdout == "[]\n"


@pytest.mark.parametrize("name", ["A B", "1A", "A-B", "", "A;id"])
def test_a_name_that_is_no_variable_is_refused_before_anything_runs(shell: Shell, name: str) -> None:
    with pytest.raises(ValueError, match="not a name for an environment variable"):
        shell.run(["true"], env={name: "x"})


def test_a_nul_is_refused_and_the_connection_stays(shell: Shell) -> None:
    with pytest.raises(ValueError, match="NUL"):
        shell.run(["echo", "a\0b"])
    with pytest.raises(ValueError, match="program"):
        shell.run([])
    assert shell.run(["echo", "on"]).stdout == "on\n"


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 65_535, 65_537, 2 * MIB + 1])
def test_stdin_of_any_size_arrives_whole(shell: Shell, size: int) -> None:
    assert shell.run(["wc", "-c"], stdin=b"\0" * size).stdout.strip() == str(size)


def test_stdin_that_looks_like_our_frames_is_data(shell: Shell) -> None:
    data = b'piherder-0123:end:0;\nexit 3\neval "$(dd bs=1 count=5)"\n'
    assert shell.run(["cat"], stdin=data).stdout.encode() == data


# --- what comes back ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 2, 24, 75, 100, 126, 127, 128, 129, 254, 255])
def test_every_exit_status_comes_back(shell: Shell, status: int) -> None:
    assert shell.script(f"exit {status}").exit_status == status


@pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 13, 15])
def test_a_signal_is_an_exit_status_beyond_128(shell: Shell, number: int) -> None:
    assert shell.run(["sh", "-c", f"kill -{number} $$"]).exit_status == 128 + number


def test_a_program_that_may_not_run_is_a_result(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("echo no")
    assert shell.run([str(tmp_path / "plain")]).exit_status == 126


def test_a_broken_script_is_a_result_with_its_reason(shell: Shell) -> None:
    result = shell.script("if true; then echo")
    assert result.exit_status not in (0, None)
    assert "yntax" in result.stderr


@pytest.mark.parametrize("limit", [2, 10, 1000])
def test_the_kept_output_is_bounded_at_both_streams(shell: Shell, limit: int) -> None:
    result = shell.script("seq 1 5000; seq 1 5000 >&2", limit=limit)
    assert result.cut
    assert len(result.stdout) <= limit + len(CUT_MARK) + 2
    assert len(result.stderr) <= limit + len(CUT_MARK) + 2


def test_output_that_just_fits_is_whole(shell: Shell) -> None:
    result = shell.run(["printf", "%s", "0123456789"], limit=10)
    assert (result.stdout, result.cut) == ("0123456789", False)


def test_every_line_is_told_although_the_kept_output_is_cut(shell: Shell) -> None:
    told: list[str] = []
    shell.run(["seq", "1", "3000"], limit=100, on_line=lambda _stream, text: told.append(text))
    assert told == [str(n) for n in range(1, 3001)]


def test_an_endless_line_is_told_in_bounds(shell: Shell) -> None:
    told: list[str] = []
    shell.script("head -c 300000 /dev/zero | tr '\\0' x; echo", on_line=lambda _stream, text: told.append(text))
    assert told == ["x" * LINE_LIMIT + CUT_MARK]


def test_the_last_line_is_told_without_its_newline(shell: Shell) -> None:
    told: list[tuple[str, str]] = []
    shell.script("printf out; printf err >&2", on_line=lambda *line: told.append(line))
    assert sorted(told) == [("stderr", "err"), ("stdout", "out")]


def test_a_command_that_closes_its_streams_still_ends(shell: Shell) -> None:
    assert shell.script("exec >&- 2>&-; exit 5", timeout=10).exit_status == 5


def test_the_command_starts_in_the_home_folder_and_leaves_no_trace(shell: Shell) -> None:
    assert shell.script("cd /; umask 077; pwd").stdout == "/\n"
    assert shell.script('[ "$PWD" = "$HOME" ] && echo home').stdout == "home\n"


def test_closing_twice_is_closing_once(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    shell = connect(target_of(make_sshd()), timeouts=QUICK)
    shell.close()
    shell.close()
    assert not shell.alive
