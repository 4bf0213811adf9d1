"""The parser is total: cut, late, noisy and hostile output gives unknowns and never an error."""

import json
import random
import string

import pytest

from hosts.facts import Facts, one_line, parse, thin, warnings
from hosts.facts.framing import SECTIONS, clean, first, integer, number
from tests.hosts.facts.samples import RASPBERRY, UBUNTU, printed

WHOLE = printed(RASPBERRY)


def use(output: str) -> Facts:
    """Do with an output all that is done with facts."""
    facts = parse(output)
    assert Facts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
    assert one_line(facts)
    assert thin(facts).keys() == {"load", "memory_percent", "disk_percent", "temperature", "uptime"}
    warnings(facts)
    return facts


def test_nothing() -> None:
    facts = use("")
    assert facts == Facts(problems=facts.problems)
    assert "section os did not arrive whole" in facts.problems
    assert "boot id could not be read" in facts.problems


@pytest.mark.parametrize("name", SECTIONS)
def test_output_that_ends_before_a_section_ends(name: str) -> None:
    facts = use(WHOLE[: WHOLE.index(f"@@piherder end {name} ")])
    assert f"section {name} did not arrive whole" in facts.problems
    later = SECTIONS[SECTIONS.index(name) :]
    assert [each for each in SECTIONS if f"section {each} did not arrive whole" in facts.problems] == list(later)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_that_is_missing_spoils_no_other(name: str) -> None:
    facts = use(printed({each: text for each, text in RASPBERRY.items() if each != name}))
    whole = parse(WHOLE).to_json()
    kept = [field for field, value in facts.to_json().items() if value == whole[field]]
    assert len(kept) >= len(whole) - 7


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_full_of_garbage(name: str) -> None:
    for garbage in (
        "=",
        "\\",
        "a b c d e f g h i j k l",
        "9" * 5000,
        "-1",
        "0",
        "ü" * 400,
        ":::",
        "image\nmodules\nlist",
    ):
        use(printed(RASPBERRY | {name: garbage}))


def test_random_cuts() -> None:
    chance = random.Random(20240229)
    for _ in range(150):
        start, end = sorted(chance.sample(range(len(WHOLE)), 2))
        use(WHOLE[:start] + WHOLE[end:])


def test_random_changes() -> None:
    chance = random.Random(7)
    for _ in range(150):
        letters = list(WHOLE)
        for _ in range(40):
            letters[chance.randrange(len(letters))] = chance.choice(string.printable + "\x00\udcff\u2028")
        use("".join(letters))


def test_a_half_number_is_not_taken() -> None:
    facts = use(WHOLE[: WHOLE.index("84356 kB")])
    assert (facts.memory_total, facts.load) == (None, (0.52, 0.58, 0.59))


def test_a_value_that_cannot_be_read_is_unknown_and_named() -> None:
    facts = use(printed(RASPBERRY | {"cpus": "many", "load": "0.1 0.2"}))
    assert (facts.cpus, facts.load) == (None, None)
    assert facts.problems == ("cpus could not be read", "load could not be read")


def test_zero_processors_and_no_memory_are_unknown() -> None:
    facts = use(printed(RASPBERRY | {"cpus": "0", "memory": "MemTotal: x kB"}))
    assert (facts.cpus, facts.memory_total, thin(facts)["memory_percent"]) == (None, None, None)


def test_a_command_that_was_ended_is_named_once() -> None:
    late = "NTPSynchronized=yes\n@@piherder late chronyc\n\n@@piherder late chronyc"
    facts = use(printed(RASPBERRY | {"clock": late}))
    assert facts.problems == ("chronyc did not answer in time",)
    assert facts.clock_synchronised is True


# case G09
def test_the_greeting_of_a_login_shell_is_no_fact() -> None:
    assert use("Welcome to Debian\nMemTotal: 1 kB\n" + WHOLE + "\nbye\n") == parse(WHOLE)


def test_line_ends_of_a_terminal() -> None:
    assert use(WHOLE.replace("\n", "\r\n")) == parse(WHOLE)


def test_a_section_that_comes_twice_counts_once() -> None:
    assert use(WHOLE + printed({"cpus": "64"})).cpus == 4


def test_the_end_of_another_section_ends_nothing() -> None:
    facts = use(WHOLE.replace("@@piherder end cpus 0", "@@piherder end disks 0", 1))
    assert facts.cpus is None


# case G08
def test_bytes_that_are_not_utf_8() -> None:
    output = printed(RASPBERRY | {"failed_units": "gr\udcfc\udcdfe.service loaded failed failed"})
    text = json.dumps(use(output.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).to_json())
    assert "attic" in text


# case G08
def test_nothing_that_a_database_refuses_is_left() -> None:
    facts = use(printed(UBUNTU | {"model": "product_name=Gr\udcfc\x00\x1b[31mn"}))
    assert facts.model == "Gr?[31mn"


def test_clean_keeps_tabs_and_line_ends() -> None:
    assert clean("a\tb\nc\x07") == "a\tb\nc"


def test_long_text_is_cut() -> None:
    assert len(first(["x" * 5000]) or "") == 300


@pytest.mark.parametrize("text", ["", None, "1.5", "0x10", "١", "9" * 19, "1 2", "--1"])
def test_no_integer(text: str | None) -> None:
    assert integer(text) is None


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), ("-3", -3.0), ("nan", None), ("1e5", None), ("inf", None)])
def test_number(text: str, value: float | None) -> None:
    assert number(text) == value
