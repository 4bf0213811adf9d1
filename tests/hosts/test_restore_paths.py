"""`restore HOST PATH`: which source and which rest of the path a person means, and where it goes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from hosts.enrol import add_source, remove_source
from hosts.management.commands.restore import destination
from hosts.management.lookup import any_host, good_generation, place_in_source
from hosts.models import GenerationStatus, Host
from hosts.store.paths import PathRefused
from jobs.models import EngineSettings, Job
from tests.commands import herder, refused
from tests.factories import make_host
from tests.hosts.rows import make_generation

if TYPE_CHECKING:
    from hosts.models import Source

pytestmark = pytest.mark.django_db


@pytest.fixture
def host(db: None) -> Host:
    return make_host("pi1")


def kept(host: Host, path: str, *sequences: int) -> Source:
    """A source with good generations."""
    source = add_source(host, path)
    for sequence in sequences:
        make_generation(source, sequence)
    return source


def params(*words: str) -> dict[str, Any]:
    """What the job was asked for."""
    ran = herder("restore", "pi1", *words)
    assert ran.code == 0, ran
    return dict(Job.objects.get().params)


# --- from the path to source and rest


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/srv/data", ""),
        ("/srv/data/", ""),
        ("//srv//data", ""),
        ("/srv/./data/a", "a"),
        ("/srv/data/a/b c/d", "a/b c/d"),
        ("/srv/data/grün.txt", "grün.txt"),
        ("/srv/data/-rf", "-rf"),
        ("/srv/data/*", "*"),
        ("/srv/data/50%", "50%25"),
        ("/srv/data/a%2Fb", "a%252Fb"),
        ("/srv/data/a\nb", "a%0Ab"),
        (os.fsdecode(b"/srv/data/caf\xe9"), "caf%E9"),
    ],
)
def test_the_rest_of_the_path_is_a_name_inside_the_generation(path: str, rest: str, host: Host) -> None:
    source = kept(host, "/srv/data", 1)
    assert place_in_source(host, path) == (source, rest)


def test_a_name_that_is_no_text_reaches_the_job(host: Host) -> None:
    kept(host, "/srv/data", 1)
    assert params(os.fsdecode(b"/srv/data/caf\xe9"))["path"] == "caf%E9"


def test_a_source_whose_own_name_is_odd_is_found(host: Host) -> None:
    source = kept(host, "/srv/50% grün", 1)
    assert place_in_source(host, "/srv/50% grün/x") == (source, "x")


def test_a_source_that_is_everything_holds_every_path(host: Host) -> None:
    source = add_source(host, "/", allow_system=True)
    assert place_in_source(host, "/etc/hosts") == (source, "etc/hosts")
    assert place_in_source(host, "/") == (source, "")


def test_a_neighbour_with_a_common_beginning_is_not_meant(host: Host) -> None:
    kept(host, "/srv/data", 1)
    assert "lies in no source of pi1" in refused("restore", "pi1", "/srv/database")


def test_a_folder_above_a_source_is_not_in_it(host: Host) -> None:
    kept(host, "/srv/data", 1)
    assert refused("restore", "pi1", "/srv") == "/srv lies in no source of pi1: it has /srv/data."


def test_a_host_without_sources_says_so(host: Host) -> None:
    assert refused("restore", "pi1", "/srv").endswith("lies in no source of pi1: it has none.")


def test_the_source_that_is_still_backed_up_goes_before_one_that_is_not(host: Host) -> None:
    kept(host, "/srv/data", 1)
    remove_source(host, "/srv/data")
    wide = kept(host, "/srv", 1)
    assert place_in_source(host, "/srv/data/x") == (wide, "data/x")


def test_what_was_kept_goes_before_what_was_not_yet(host: Host) -> None:
    old = kept(host, "/srv/data", 1)
    remove_source(host, "/srv/data")
    add_source(host, "/srv")
    assert place_in_source(host, "/srv/data/x") == (old, "x")


def test_a_source_that_is_switched_off_still_gives_back(host: Host) -> None:
    kept(host, "/srv/data", 1)
    remove_source(host, "/srv/data")
    assert params("/srv/data/a")["source"] == "/srv/data"


# --- which generation


def test_the_latest_is_the_highest_number_whatever_its_date(host: Host) -> None:
    source = kept(host, "/srv/data", 1, 2)
    source.generations.filter(sequence=1).update(finished_at=timezone.now())
    assert good_generation(source, "latest").sequence == 2


@pytest.mark.parametrize("status", [GenerationStatus.WRITING, GenerationStatus.DELETING])
def test_only_a_good_generation_is_given_back(status: GenerationStatus, host: Host) -> None:
    source = kept(host, "/srv/data", 1)
    make_generation(source, 2, status=status)
    assert good_generation(source, "latest").sequence == 1
    assert refused("restore", "pi1", "/srv/data", "--generation", "2").endswith("there are 1.")


@pytest.mark.parametrize("word", ["newest", "-1", "1.0", "²", "", "9" * 5000, "1 2"])
def test_what_is_no_number_of_a_generation(word: str, host: Host) -> None:
    kept(host, "/srv/data", 1)
    assert refused("restore", "pi1", "/srv/data", f"--generation={word}").startswith("A generation is a number or")


def test_a_source_of_which_nothing_is_kept_says_so(host: Host) -> None:
    add_source(host, "/srv/data")
    assert refused("restore", "pi1", "/srv/data").endswith("has no good generation latest: there are none.")


def test_only_twenty_numbers_are_named(host: Host) -> None:
    kept(host, "/srv/data", *range(1, 31))
    assert refused("restore", "pi1", "/srv/data", "--generation", "99").endswith(" 13, 12, 11.")


def test_the_number_asked_for_reaches_the_job_and_latest_stays_a_word(host: Host) -> None:
    kept(host, "/srv/data", 1, 2)
    assert params("/srv/data", "--generation", "1")["sequence"] == "1"
    Job.objects.all().delete()
    assert params("/srv/data")["sequence"] == "latest"


# --- where to


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("", "pi1", ""),
        ("/srv/back", "pi1", "/srv/back"),
        (":/srv/back", "pi1", "/srv/back"),
        ("pi2:", "pi2", ""),
        ("pi2:/srv/a:b", "pi2", "/srv/a:b"),
        ("/srv/a:b", "pi1", "/srv/a:b"),
        ("pi2:/srv/50%", "pi2", "/srv/50%25"),
        ("pi1:/srv/x/", "pi1", "/srv/x"),
    ],
)
def test_the_place_to_write_to(text: str, name: str, path: str, host: Host) -> None:
    make_host("pi2")
    found, place = destination(text, host)
    assert (found.name, place) == (name, path)


@pytest.mark.parametrize("text", ["pi2:relative", "pi2:/srv/../etc", "pi2:/usr/lib", "/", "pi2:/"])
def test_places_that_are_refused(text: str, host: Host) -> None:
    make_host("pi2")
    with pytest.raises(PathRefused):
        destination(text, host)


def test_the_system_may_be_written_when_that_is_said(host: Host) -> None:
    assert destination("/usr/lib/x", host, allow_system=True)[1] == "/usr/lib/x"


def test_the_same_host_named_again_is_no_other_host(host: Host) -> None:
    kept(host, "/srv/data", 1)
    assert params("/srv/data", "--to", "pi1:/srv/back")["from_host"] == ""


def test_another_host_that_was_removed_gets_nothing(host: Host) -> None:
    kept(host, "/srv/data", 1)
    make_host("pi2", removed_at=timezone.now())
    assert refused("restore", "pi1", "/srv/data", "--to", "pi2:").startswith("There is no host called pi2")


@pytest.mark.parametrize("option", ["--dry-run", "--delete", "--allow-system"])
def test_every_flag_reaches_the_job(option: str, host: Host) -> None:
    kept(host, "/srv/data", 1)
    found = params("/srv/data", option)
    name = option.removeprefix("--").replace("-", "_")
    assert [key for key in ("dry_run", "delete", "allow_system") if found[key]] == [name]


# --- the answer


def test_json_names_the_job_and_nothing_else_is_printed(host: Host) -> None:
    kept(host, "/srv/data", 1)
    ran = herder("restore", "pi1", "/srv/data", "--json")
    (answer,) = ran.document["jobs"]
    assert (ran.code, ran.err, answer["host"], answer["job"]["kind"]) == (0, "", "pi1", "restore")


def test_a_paused_target_refuses_in_its_own_words(host: Host) -> None:
    kept(host, "/srv/data", 1)
    make_host("pi2", paused_at=timezone.now(), pause_reason="new disk")
    ran = herder("restore", "pi1", "/srv/data", "--to", "pi2:")
    assert ran.code == 1
    assert "pi2 is paused" in ran.err
    assert not Job.objects.exists()


def test_a_held_herd_restores_nothing(host: Host) -> None:
    kept(host, "/srv/data", 1)
    EngineSettings.objects.create(pk=1, held_at=timezone.now())
    assert herder("restore", "pi1", "/srv/data").err == "The herd is on hold: release it first.\n"


def test_a_timeout_that_passes_is_code_5(host: Host) -> None:
    kept(host, "/srv/data", 1)
    ran = herder("restore", "pi1", "/srv/data", "--timeout", "0")
    assert ran.code == 5
    assert "is still pending" in ran.err


def test_the_same_restore_twice_is_code_3(host: Host) -> None:
    kept(host, "/srv/data", 1)
    params("/srv/data/a")
    assert herder("restore", "pi1", "/srv/data/a").code == 3
    assert herder("restore", "pi1", "/srv/data/b").code == 3
    assert Job.objects.count() == 1


def test_a_host_of_the_herd_is_found_by_its_exact_name(host: Host) -> None:
    assert any_host("pi1") == host
    for name in ("PI1", "pi", "pi1 "):
        assert refused("restore", name, "/srv").startswith(f"There is no host called {name}")
