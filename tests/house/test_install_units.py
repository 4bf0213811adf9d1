"""Units as text: what systemd is told to run, as whom, how it is stopped and what it may do."""

from __future__ import annotations

import configparser
import re
from dataclasses import replace
from pathlib import Path

import pytest

from piherder.house import units
from piherder.house.layout import Layout

FACTS = units.Facts(Layout(), Path("/var/lib/piherder"), 8000, own_redis=True, own_postgresql=False, stop_seconds=140.0)
SERVICES = ["piherder-redis.service", "piherder-web.service", "piherder-worker.service", "piherder-beat.service"]


def section(text: str, name: str = "Service") -> dict[str, list[str]]:
    """Settings of one section; the names keep their case, and each may stand there several times."""
    body = text.partition(f"[{name}]\n")[2].partition("\n[")[0]
    found: dict[str, list[str]] = {}
    for line in body.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.fixture(params=[*SERVICES, units.MORE_WORKERS])
def service(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    return section(units.render(FACTS)[request.param])


def test_nothing_is_left_to_fill_in() -> None:
    for text in units.render(FACTS).values():
        assert re.findall(r"@[A-Z_]+@", text) == []
        assert text.startswith("# Written by `make install`")


def test_systemd_reads_every_line() -> None:
    for text in units.render(FACTS).values():
        parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
        parser.read_string(text)
        assert "Unit" in parser.sections()


def test_each_runs_as_the_user_with_the_settings_and_for_ever(service: dict[str, list[str]]) -> None:
    assert service["User"] == ["piherder"]
    assert service["EnvironmentFile"] == ["/etc/piherder/piherder.env"]
    assert service["WorkingDirectory"] == ["/opt/piherder/current"]
    assert service["Restart"] == ["always"]
    assert service["ExecStart"][0].startswith("/opt/piherder/current/.venv/bin/python -m piherder.house serve ")


def test_starting_again_is_never_given_up() -> None:
    for name in SERVICES:
        assert section(units.render(FACTS)[name], "Unit")["StartLimitIntervalSec"] == ["0"]


def test_no_privilege_is_left(service: dict[str, list[str]]) -> None:
    assert (service["CapabilityBoundingSet"], service["AmbientCapabilities"]) == ([""], [""])
    for name in (
        "NoNewPrivileges",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectHome",
        "RestrictSUIDSGID",
        "LockPersonality",
    ):
        assert service[name] == ["yes"], name
    assert service["UMask"] == ["0077"]
    assert service["SystemCallFilter"] == ["@system-service"]


def test_backups_may_go_to_disks_that_are_mounted_later() -> None:
    found = units.render(FACTS)
    assert section(found["piherder-worker.service"])["ProtectSystem"] == ["full"]
    assert section(found["piherder-web.service"])["ProtectSystem"] == ["full"]
    assert "mounted" in found["piherder-worker.service"]


def test_who_writes_no_backup_writes_to_the_data_folder_alone() -> None:
    for name in ("piherder-redis.service", "piherder-beat.service"):
        found = section(units.render(FACTS)[name])
        assert (found["ProtectSystem"], found["ReadWritePaths"]) == (["strict"], ["/var/lib/piherder"])


def test_redis_reaches_no_network() -> None:
    assert section(units.render(FACTS)["piherder-redis.service"])["RestrictAddressFamilies"] == ["AF_UNIX"]


def test_a_worker_has_the_time_that_its_jobs_need() -> None:
    found = section(units.render(replace(FACTS, stop_seconds=140.2))["piherder-worker.service"])
    assert found["TimeoutStopSec"] == ["156"]
    assert found["KillMode"] == ["mixed"]
    assert found["OOMPolicy"] == ["continue"]


def test_further_workers_have_names_of_their_own() -> None:
    found = units.render(FACTS)
    assert section(found[units.MORE_WORKERS])["ExecStart"][0].endswith("serve worker --name %i")
    assert section(found["piherder-worker.service"])["ExecStart"][0].endswith("serve worker")


def test_only_a_low_port_gets_its_one_capability() -> None:
    found = units.render(replace(FACTS, port=443))
    assert section(found["piherder-web.service"])["CapabilityBoundingSet"] == ["CAP_NET_BIND_SERVICE"]
    assert section(found["piherder-worker.service"])["CapabilityBoundingSet"] == [""]


def test_another_redis_has_no_unit_here() -> None:
    found = units.render(replace(FACTS, own_redis=False))
    assert "piherder-redis.service" not in found
    assert "piherder-redis" not in "".join(found.values())
    assert units.services(own_redis=False) == [
        "piherder-web.service",
        "piherder-worker.service",
        "piherder-beat.service",
    ]


def test_services_wait_for_the_servers_of_this_machine() -> None:
    unit = section(units.render(replace(FACTS, own_postgresql=True))["piherder-worker.service"], "Unit")
    assert unit["After"] == ["network.target piherder-redis.service postgresql.service"]
    assert unit["Wants"] == ["piherder-redis.service postgresql.service"]


def test_the_target_starts_at_boot_and_takes_all_with_it() -> None:
    found = units.render(FACTS)
    assert section(found["piherder.target"], "Install")["WantedBy"] == ["multi-user.target"]
    for name in SERVICES:
        assert section(found[name], "Install")["WantedBy"] == ["piherder.target"]
        assert section(found[name], "Unit")["PartOf"] == ["piherder.target"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("/a/b", "/a/b"), ("/a b", '"/a b"'), ("/50%", "/50%%"), ('/a"b', '"/a\\"b"'), ("/a\\b", '"/a\\\\b"')],
)
def test_words_of_a_unit_file_are_literal(value: str, expected: str) -> None:
    assert units.word(value) == expected


def test_no_word_can_add_a_line() -> None:
    with pytest.raises(ValueError, match="no line break"):
        units.word("/a\nUser=root")


def test_an_unknown_name_in_a_template_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        units.fill("@NOBODY_KNOWS@", units.values(FACTS))
