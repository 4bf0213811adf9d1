"""A kind is checked when it is declared; what the engine cannot keep is refused in words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jobs import registry
from jobs.registry import BadDeclaration, Family, UnknownKind, register
from tests.jobs.kinds import Settled, Work


def declared(**attributes: Any) -> type[Family]:
    return type("Odd", (Family,), {"kind": "odd", "label": "Odd", **attributes})


def test_a_good_declaration_is_found_by_its_name() -> None:
    cls = register(declared())
    assert isinstance(registry.get("odd"), cls)
    assert "odd" in [family.kind for family in registry.kinds()]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"kind": ""}, "has no kind"),
        ({"label": ""}, "has no label"),
        ({"kind": "work"}, "declared twice"),
        ({"mutex": True, "needs_host": False}, "wants the host mutex but no host"),
        ({"time_limit": timedelta(0)}, "has no time limit"),
        ({"kind": "x" * 65}, "longer than 64"),
        ({"lanes": "backup"}, "must be a tuple"),
        ({"lanes": ("rsync",)}, "other than rsync"),
    ],
)
def test_a_declaration_that_cannot_be_kept_is_refused(attributes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadDeclaration, match=words):
        register(declared(**attributes))


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(UnknownKind, match=r"no kind of work called nope: known are .*work"):
        registry.get("nope")


def test_kinds_come_in_order() -> None:
    names = [family.kind for family in registry.kinds()]
    assert names == sorted(names)


def test_only_some_kinds_can_be_settled() -> None:
    assert registry.settle_of(Settled())
    assert registry.settle_of(Work()) is None


def test_the_test_kinds_are_there_where_the_setting_asks() -> None:
    assert {"noop", "sleep"} <= {family.kind for family in registry.kinds()}


def test_a_family_says_its_own_lanes_and_limit() -> None:
    sleep = registry.get("sleep")
    assert sleep.lanes_of(None, {"tag": "a"}) == ("sleep:a",)
    assert sleep.limit_of(None, {"limit": 3}) == timedelta(seconds=3)
    assert sleep.limit_of(None, {}) == timedelta(hours=2)


def test_a_bare_family_cannot_run() -> None:
    with pytest.raises(NotImplementedError):
        Family().carry_out(None)  # type: ignore[arg-type]  # it never looks at it
