"""How generations come to be on disk: names, partials, publication."""

from __future__ import annotations

import json
import os
import random
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import TYPE_CHECKING

import pytest

from hosts.store import layout
from hosts.store.layout import GenerationInfo, LayoutError
from hosts.store.paths import PathRefused
from tests.hosts.store.build import fill, fill_disk, finish, info, publish, snapshot, source_dir, write, write_partial

if TYPE_CHECKING:
    from pathlib import Path


def test_a_generation_lies_where_the_readme_says(root: Path) -> None:
    path = publish(root, 42, {"a": b"1"})
    assert path.relative_to(root).as_posix() == "pi-1/srv-data/000042-20270111T021500Z"
    assert sorted(os.listdir(path)) == ["generation.json", "manifest.jsonl.gz", "tree"]


def test_it_can_be_read_with_plain_cp(root: Path, tmp_path: Path) -> None:
    partial = write_partial(root, "a", {})
    fill(partial.tree)
    path = finish(partial, 1)
    subprocess.run(["cp", "-a", str(path / "tree"), str(tmp_path / "copy")], check=True)
    assert os.listdir(os.fsencode(tmp_path / "copy/odd")) == os.listdir(os.fsencode(path / "tree/odd"))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/srv/data", "srv-data"),
        ("/srv/data/", "srv-data"),
        ("/etc", "etc"),
        ("/", "root~fs"),
        ("/root", "root"),
        ("/a.b/c_d", "a.b-c_d"),
    ],
)
def test_plain_sources_have_plain_folders(path: str, name: str) -> None:
    assert layout.source_folder_name(path) == name


@pytest.mark.parametrize(
    "path", ["/srv-data", "/Srv/data", "/.hidden", "/srv/a b", "/srv/grün", "/srv/caf\udce9", "/" + "x" * 200, "/-"]
)
def test_unusual_sources_have_a_hash(path: str) -> None:
    name = layout.source_folder_name(path)
    assert name.isascii()
    assert len(name) < 100
    assert name[-17] == "~"
    assert not name.startswith((".", "-"))


def test_no_two_sources_share_a_folder_even_where_case_does_not_count() -> None:
    parts = [
        "srv",
        "data",
        "srv-data",
        "Data",
        "root",
        "fs",
        "~",
        "root~fs",
        "a b",
        "a_b",
        "caf\udce9",
        "café",
        ".x",
        "-",
    ]
    paths = ["/", *(f"/{a}" for a in parts), *(f"/{a}/{b}" for a, b in product(parts, parts))]
    hashed = [f"/{layout.source_folder_name(path)}" for path in paths]
    everything = set(paths) | set(hashed)
    assert len({layout.source_folder_name(path).lower() for path in everything}) == len(everything)


def test_an_empty_source_is_refused() -> None:  # case C16
    with pytest.raises(PathRefused):
        layout.source_folder_name("  ")


def test_the_name_holds_utc_whatever_the_zone() -> None:
    there = datetime(2026, 11, 30, 4, 15, tzinfo=timezone(timedelta(hours=2)))
    assert layout.generation_name(7, there) == "000007-20261130T021500Z"
    assert layout.generation_name(1234567, there).startswith("1234567-")


def test_a_name_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="zone"):
        layout.generation_name(1, datetime(2026, 1, 1))


def test_the_record_comes_back(root: Path) -> None:
    given = GenerationInfo(
        "pi",
        "/srv/caf\udce9",
        3,
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 2, tzinfo=UTC),
        "i",
        "9",
        5,
        2,
        100,
        4,
        5,
        1.5,
        24,
        ("file vanished",),
        True,
        ("*.tmp", "caf\udce9 50%"),
        True,
    )
    assert GenerationInfo.from_json(given.to_json()) == given
    assert json.loads(given.to_json())["source"] == "/srv/caf%E9"


def test_a_record_of_a_later_version_is_read() -> None:
    raw = json.loads(info(1).to_json()) | {"format": 2, "moon": "full"}
    assert GenerationInfo.from_json(json.dumps(raw).encode()).sequence == 1


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"started": "yesterday"}'])
def test_a_damaged_record_is_said_to_be_damaged(data: bytes) -> None:
    with pytest.raises(LayoutError, match="damaged"):
        GenerationInfo.from_json(data)


def test_generations_are_listed_by_sequence_and_nothing_else_is(root: Path) -> None:
    for sequence in (2, 10, 1):
        publish(root, sequence, {"a": b"1"})
    write_partial(root, "open", {})
    (source_dir(root) / "lost+found").mkdir()
    assert [g.sequence for g in layout.list_generations(source_dir(root))] == [1, 2, 10]
    assert layout.next_sequence(source_dir(root)) == 11


def test_a_source_never_backed_up_has_none(root: Path) -> None:
    assert layout.list_generations(source_dir(root)) == []
    assert layout.next_sequence(source_dir(root)) == 1


def test_a_generation_without_its_record_is_listed_with_the_reason(root: Path) -> None:
    (publish(root, 1, {"a": b"1"}) / layout.INFO).write_bytes(b"{")
    (found,) = layout.list_generations(source_dir(root))
    assert found.info is None
    assert "cannot be attached" in found.problem
    assert found.taken_at == info(1).started


def test_the_totals_are_in_the_record(root: Path) -> None:
    partial = write_partial(root, "a", {"x": b"12345", "d/y": b"1"})
    path = finish(partial, 1)
    found = GenerationInfo.from_json((path / layout.INFO).read_bytes())
    assert (found.files, found.dirs, found.bytes, found.with_checksum) == (2, 2, 6, 2)


def test_a_second_run_takes_over_what_the_first_left(root: Path) -> None:  # case C19
    write_partial(root, "one", {"big": b"half"})
    partial = layout.take_over(source_dir(root), "two")
    assert partial.adopted == "one"
    assert (partial.tree / "big").read_bytes() == b"half"
    assert [path.name for path in source_dir(root).iterdir()] == [".partial-two"]


def test_of_several_leftovers_the_newest_is_taken_and_the_rest_goes(root: Path) -> None:  # case C19
    folder = source_dir(root)
    for age, name in ((3, "z-old"), (1, "a-new"), (2, "middle")):
        write(folder / f".partial-{name}" / "tree" / "from", name.encode())
        os.utime(folder / f".partial-{name}", (1000 - age, 1000 - age))
    partial = layout.take_over(folder, "mine")
    assert (partial.tree / "from").read_bytes() == b"a-new"
    assert os.listdir(folder) == [".partial-mine"]
    assert os.listdir(root / ".trash") == []


def test_taking_over_twice_is_the_same_partial(root: Path) -> None:
    first = write_partial(root, "one", {"a": b"1"})
    again = layout.take_over(source_dir(root), "one")
    assert again.path == first.path
    assert (again.tree / "a").exists()


def test_a_sealed_leftover_is_opened_again(root: Path) -> None:
    partial = write_partial(root, "one", {"a": b"1"})
    layout.seal(partial, info(1), {}, None)
    again = layout.take_over(source_dir(root), "two")
    assert os.listdir(again.path) == ["tree"]
    with pytest.raises(LayoutError, match="no manifest"):
        layout.publish(again, source_dir(root) / info(1).folder_name)


def test_a_half_made_leftover_is_completed(root: Path) -> None:
    (source_dir(root) / ".partial-x").mkdir(parents=True)
    assert layout.take_over(source_dir(root), "y").tree.is_dir()


def test_an_adopted_tree_shares_no_file_with_a_good_generation(root: Path) -> None:
    first = publish(root, 1, {"same": b"1"})
    partial = write_partial(root, "one", {"fresh": b"2"})
    os.link(first / "tree/same", partial.tree / "same")
    adopted = layout.take_over(source_dir(root), "two")
    assert adopted.released == 1
    assert os.listdir(adopted.tree) == ["fresh"]


def test_rsync_into_an_adopted_tree_leaves_the_good_generation_alone(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "src/f", b"1", 0o600)
    first = publish(root, 1, {})
    copy = ["rsync", "-a", "--link-dest", str(first / "tree"), f"{tmp_path}/src/"]
    subprocess.run(["rsync", "-a", f"{tmp_path}/src/", f"{first}/tree/"], check=True)
    before = snapshot(first)
    subprocess.run([*copy, str(write_partial(root, "one", {}).tree)], check=True)
    (tmp_path / "src/f").chmod(0o644)
    subprocess.run([*copy, str(layout.take_over(source_dir(root), "two").tree)], check=True)
    assert snapshot(first) == before


@pytest.mark.parametrize("attempt", ["", "a/b", "../x", "a b", "x\n"])
def test_an_attempt_that_is_no_name_is_refused(root: Path, attempt: str) -> None:
    with pytest.raises(LayoutError, match="attempt"):
        layout.take_over(source_dir(root), attempt)


def test_a_source_folder_that_leads_out_of_the_root_is_refused(root: Path, tmp_path: Path) -> None:  # case C16
    (tmp_path / "elsewhere").mkdir()
    (root / "pi-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathRefused, match="not inside"):
        layout.take_over(source_dir(root), "one")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_existing_generation_is_never_replaced(root: Path) -> None:
    first = publish(root, 1, {"a": b"1"})
    before = snapshot(first)
    with pytest.raises(LayoutError, match="exists already"):
        publish(root, 1, {"a": b"2"})
    assert snapshot(first) == before


def test_a_partial_is_published_beside_itself_only(root: Path, tmp_path: Path) -> None:
    partial = write_partial(root, "a", {})
    for final in (tmp_path / info(1).folder_name, source_dir(root) / "latest"):
        with pytest.raises(LayoutError, match="not the name"):
            layout.publish(partial, final)


def test_the_steps_come_in_order(root: Path) -> None:
    partial, steps = write_partial(root, "a", {}), list[str]()
    record, _totals = layout.seal(partial, info(1), {}, None)
    layout.publish(partial, partial.path.parent / record.folder_name, steps.append)
    assert steps == ["sync", "rename", "sync_folder", "done"]


def test_sealing_can_be_tried_again(root: Path) -> None:
    partial = write_partial(root, "a", {"x": b"1"})
    layout.seal(partial, info(1), {}, None)
    assert finish(partial, 1).is_dir()


def test_a_full_disk_publishes_nothing_and_the_next_run_works(small_disk: Path) -> None:  # case C09
    first = publish(small_disk, 1, {"a": b"1"})
    before = snapshot(first)
    partial = write_partial(small_disk, "two", {f"{n}": random.Random(n).randbytes(40) for n in range(50)})
    ballast = fill_disk(small_disk)
    with pytest.raises(OSError, match="No space"):
        layout.seal(partial, info(2), {}, first)
    assert snapshot(first) == before
    assert len(layout.list_generations(source_dir(small_disk))) == 1
    ballast.unlink()
    assert finish(layout.take_over(source_dir(small_disk), "three"), 2, first).is_dir()
