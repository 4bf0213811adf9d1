"""A host at a glance, its facts in words, what is kept of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from hosts.described import described
from hosts.enrol import EnrolRefused
from hosts.facts.model import Address, Facts, Tools
from hosts.glance import DiskBar, bar, glances
from hosts.models import Generation, GenerationStatus
from hosts.shelf import SHOWN, folder, keep, let_go, shelves
from hosts.store.manifest import write_manifest
from tests.factories import make_host, make_job
from tests.hosts.rows import disk, know, make_generation, make_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "unknown"),
        ({"last_seen": timezone.now()}, "up"),
        ({"last_seen": timezone.now(), "last_error_at": timezone.now()}, "down"),
        ({"last_error_at": timezone.now(), "paused_at": timezone.now()}, "paused"),
        ({"paused_at": timezone.now(), "paused_until": timezone.now() - timedelta(days=1)}, "unknown"),
    ],
)
def test_state(fields: dict[str, Any], state: str) -> None:
    make_host(**fields)
    assert glances()[0].state == state


def test_the_line_says_why_there_is_no_contact() -> None:
    make_host(last_error="It does not answer.", last_error_at=timezone.now())
    assert glances()[0].line == "It does not answer."


def test_a_pause_without_reason_says_so() -> None:
    make_host(paused_at=timezone.now())
    assert glances()[0].line == "no reason was given"


def test_unknown_facts_are_unknown() -> None:
    make_host()
    found = glances()[0]
    assert (found.line, found.disks, found.fullest) == ("nothing is known yet", [], None)


def test_the_fullest_disk_stands_first() -> None:
    host = make_host()
    know(host, disks=(disk("/", 20), disk("/srv", 95)))
    found = glances()[0].fullest
    assert found == DiskBar("/srv", 95, "95.0 of 100.0 GiB")
    assert found.level == "bad"


@pytest.mark.parametrize(("percent", "level"), [(None, "ok"), (80, "ok"), (81, "warn"), (90, "warn"), (91, "bad")])
def test_levels(percent: int | None, level: str) -> None:
    assert DiskBar("/", percent, "").level == level


def test_a_disk_of_unknown_size() -> None:
    from dataclasses import replace

    assert bar(replace(disk("/", 5), bytes_total=None)).words == "size unknown"


def test_warnings_name_what_is_not_backed_up() -> None:
    host = make_host()
    assert glances()[0].warnings == ["Nothing of this host is backed up: it has no sources."]
    make_source(host)
    assert glances()[0].warnings == ["This host was never backed up."]


def test_a_backup_that_was_never_proven_is_a_warning() -> None:
    host = make_host(last_backup_at=timezone.now())
    generation = make_generation(make_source(host))
    assert glances()[0].warnings == ["No backup of this host was proven restorable yet."]
    generation.verified_at = timezone.now()
    generation.save()
    assert glances()[0].warnings == []


def test_a_generation_that_goes_proves_nothing() -> None:
    source = make_source(make_host())
    make_generation(source, status=GenerationStatus.DELETING, verified_at=timezone.now())
    assert glances()[0].proven_at is None


def test_only_active_jobs_are_shown_and_removed_hosts_are_not() -> None:
    host = make_host()
    make_host(removed_at=timezone.now())
    job = make_job("host_facts", host)
    (found,) = glances()
    assert found.active == (job,)


def test_many_hosts_cost_two_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for _ in range(20):
        host = make_host()
        make_generation(make_source(host))
        make_job("host_facts", host)
    with django_assert_num_queries(2):
        assert all(each.warnings and each.active for each in glances())


def test_facts_leave_out_what_is_unknown() -> None:
    assert described(None) == []
    assert described(Facts(kernel="6.6")) == [("Kernel", "6.6")]


def test_facts_in_words() -> None:
    facts = Facts(
        cpus=4, arch="aarch64", load=(0.5, 0.25, 0.1), memory_total=4 << 30, memory_available=3 << 30, swap_total=0,
        clock_synchronised=False, addresses=(Address("192.0.2.1"),), tools=Tools(rsync_version="3.2.7"),
        temperature=51.6,
    )  # fmt: skip
    found = dict(described(facts))
    assert found["Processor"] == "4 × aarch64, load 0.50 0.25 0.10"
    assert found["Memory"] == "3.0 GiB of 4.0 GiB free"
    assert (found["Swap"], found["Clock"], found["Programs"]) == ("none", "not synchronised", "rsync 3.2.7")
    assert found["Temperature"] == "52 °C"


def test_a_shelf_holds_good_generations_newest_first() -> None:
    source = make_source(make_host())
    make_generation(source, 1)
    newest = make_generation(source, 2)
    make_generation(source, 3, status=GenerationStatus.WRITING)
    (shelf,) = shelves(source.host)
    assert shelf.generations[0] == newest
    assert (len(shelf.generations), shelf.more) == (2, 0)


def test_a_long_shelf_is_cut() -> None:
    source = make_source(make_host())
    for number in range(1, SHOWN + 3):
        make_generation(source, number)
    (shelf,) = shelves(source.host)
    assert (len(shelf.generations), shelf.more) == (SHOWN, 2)


def test_a_generation_is_kept_and_let_go() -> None:
    generation = make_generation(make_source(make_host()))
    keep(generation, "n" * 300)
    generation.refresh_from_db()
    assert generation.kept_at
    assert generation.kept_note == "n" * 200
    let_go(generation)
    assert type(generation).objects.filter(kept_at__isnull=True, kept_note="").exists()


@pytest.mark.parametrize("verb", [lambda row: keep(row, "before the move"), let_go], ids=["keep", "let_go"])
def test_a_generation_that_is_being_deleted_is_neither_kept_nor_let_go(verb: Callable[[Generation], None]) -> None:
    generation = make_generation(make_source(make_host()), kept_note="old")
    Generation.objects.update(status=GenerationStatus.DELETING)
    with pytest.raises(EnrolRefused, match="Generation 1 is being deleted"):
        verb(generation)
    generation.refresh_from_db()
    assert (generation.kept_at, generation.kept_note) == (None, "old")


@pytest.fixture
def on_disk(tmp_path: Path) -> Generation:
    """A generation whose manifest lies on the disk."""
    generation = make_generation(make_source(make_host()), root=tmp_path)
    tree = generation.path / "tree"
    (tree / "docs").mkdir(parents=True)
    (tree / "docs" / "a 100%\n.txt").write_text("abc")
    (tree / "b.txt").write_text("b")
    write_manifest(tree, {}, None, generation.path / "manifest.jsonl.gz")
    return generation


def test_a_folder_lists_folders_first(on_disk: Generation) -> None:
    found = folder(on_disk, "")
    assert [(name.name, name.is_folder, name.size) for name in found.names] == [
        ("docs", True, None),
        ("b.txt", False, 1),
    ]


def test_odd_names_are_written_so_that_they_lead_back(on_disk: Generation) -> None:
    found = folder(on_disk, "/docs/")
    assert [name.path for name in found.names] == ["docs/a 100%25%0A.txt"]
    assert found.way == [("docs", "docs")]


@pytest.mark.parametrize("path", ["../..", "docs/../..", "a//b", "docs/\0"])
def test_no_way_leads_outside(on_disk: Generation, path: str) -> None:
    found = folder(on_disk, path)
    assert found.names == []
    assert "is not a name inside a generation" in found.trouble


def test_a_missing_manifest_is_said() -> None:
    generation = make_generation(make_source(make_host()))
    assert "missing" in folder(generation, "").trouble
