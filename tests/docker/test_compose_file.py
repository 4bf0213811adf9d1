"""compose.yml keeps what it promises: any number of workers, nothing lost at a stop, no more rights than needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from piherder.house.stack import DRAIN_MARGIN

DOCKER = Path(__file__).resolve().parents[2] / "docker"
FILE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OURS = ("web", "worker", "beat", "migrate", "worker-nmap")
SERVERS = ("postgres", "redis")


def dockerfile() -> str:
    """Its text with continued lines joined."""
    return (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")


def default_of(text: str) -> str:
    """The default of `${NAME:-default}`."""
    found = re.fullmatch(r"\$\{\w+:-(.*)\}", text)
    return found[1] if found else text


def test_the_roles_and_their_servers_are_there() -> None:
    assert set(SERVICES) == {*OURS, *SERVERS}
    assert SERVICES["worker-nmap"]["profiles"] == ["nmap"]


@pytest.mark.parametrize("service", SERVICES)
def test_no_name_is_fixed_so_that_any_service_can_be_scaled(service: str) -> None:
    assert {"container_name", "hostname"}.isdisjoint(SERVICES[service])
    assert "PIHERDER_NODE" not in SERVICES[service].get("environment", {})


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_as_few_rights_as_it_can(service: str) -> None:
    found = SERVICES[service]
    assert found["read_only"] is True
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert "cap_add" not in found
    assert "privileged" not in found


@pytest.mark.parametrize("service", [name for name in SERVICES if name != "migrate"])
def test_what_ends_is_started_again(service: str) -> None:
    assert SERVICES[service]["restart"] == "unless-stopped"


@pytest.mark.parametrize("service", ["web", "worker", "beat", "worker-nmap"])
def test_nothing_starts_before_its_tables_and_servers(service: str) -> None:
    assert SERVICES[service]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"},
        "postgres": {"condition": "service_healthy"},
        "redis": {"condition": "service_healthy"},
    }


def test_tables_are_changed_in_one_place_that_ends() -> None:
    assert [name for name in SERVICES if SERVICES[name].get("command") == ["migrate"]] == ["migrate"]
    assert SERVICES["migrate"]["restart"] == "no"


@pytest.mark.parametrize("service", ["worker", "worker-nmap"])
def test_a_worker_is_not_killed_before_its_jobs_have_ended(service: str) -> None:
    grace = default_of(SERVICES[service]["stop_grace_period"])
    shown = re.search(r"^# PIHERDER_DRAIN_GRACE_SEC=(\d+)$", (DOCKER / ".env.example").read_text(), re.MULTILINE)
    assert shown
    assert int(grace.removesuffix("s")) >= int(shown[1]) + DRAIN_MARGIN


def test_backups_archives_and_keys_outlive_every_container() -> None:
    volumes = [volume.partition(":") for volume in SERVICES["worker"]["volumes"]]
    assert {(name, path) for name, _, path in volumes} == {
        ("data", "/data"),
        ("backups", "/backups"),
        ("herder-backups", "/herder-backups"),
    }
    assert {"data", "backups", "herder-backups", "postgres", "redis"} == set(FILE["volumes"])


@pytest.mark.parametrize("service", OURS)
def test_all_roles_share_the_same_folders(service: str) -> None:
    assert SERVICES[service]["volumes"] == SERVICES["worker"]["volumes"]
    assert SERVICES[service]["environment"] == SERVICES["worker"]["environment"]


def test_redis_loses_no_queue_at_a_stop_or_when_memory_is_full() -> None:
    command = SERVICES["redis"]["command"]
    assert {"--appendonly yes", "--maxmemory-policy noeviction"} <= set(command)
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]


@pytest.mark.parametrize("service", SERVERS)
def test_the_servers_are_reached_from_inside_only(service: str) -> None:
    assert SERVICES[service]["networks"] == ["servers"]
    assert FILE["networks"]["servers"] == {"internal": True}
    assert "ports" not in SERVICES[service]
    assert SERVICES[service]["healthcheck"]["test"]


def test_the_pages_are_published_on_this_machine_only() -> None:
    assert SERVICES["web"]["ports"] == ["${PIHERDER_LISTEN:-127.0.0.1:8000}:8000"]
    assert [name for name in SERVICES if "ports" in SERVICES[name]] == ["web"]


def test_no_password_is_written_down() -> None:
    text = (DOCKER / "compose.yml").read_text()
    assert set(re.findall(r"POSTGRES_PASSWORD\S{0,2}", text)) <= {"POSTGRES_PASSWORD:", "POSTGRES_PASSWORD:?"} | {
        "POSTGRES_PASSWORD"
    }
    assert re.search(r"^POSTGRES_PASSWORD=$", (DOCKER / ".env.example").read_text(), re.MULTILINE)


def test_the_image_runs_as_a_user_that_owns_its_folders() -> None:
    text = dockerfile()
    assert re.search(r"^USER piherder$", text, re.MULTILINE)
    assert "-o piherder -g piherder /data /backups /herder-backups /run/piherder" in text
    (uid,) = re.findall(r"^ARG UID=(\d+)$", text, re.MULTILINE)
    assert f"/run/piherder:mode=0700,uid={uid},gid={uid}" in SERVICES["worker"]["tmpfs"]


def test_the_image_asks_its_role_how_it_is_and_reaps_children() -> None:
    text = dockerfile()
    assert '"-m", "piherder.house.container", "health"]' in text
    assert re.search(r'^ENTRYPOINT \["tini", "--"', text, re.MULTILINE)


def test_the_image_is_built_in_two_stages_on_a_base_of_choice() -> None:
    text = dockerfile()
    assert re.findall(r"^FROM (.*)$", text, re.MULTILINE) == ["${BASE} AS builder", "${BASE}"]
    assert default_of(SERVICES["worker"]["build"]["args"]["BASE"]) in text
    assert "--mount" not in text  # only BuildKit knows it


def test_what_is_no_part_of_the_product_stays_out_of_the_image() -> None:
    lines = (DOCKER.parent / ".dockerignore").read_text().splitlines()
    assert next(line for line in lines if line and not line.startswith("#")) == "*"
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert let_in.isdisjoint({"tests", "bench", ".git", "docker", ".venv"})


def kubernetes() -> list[dict[str, Any]]:
    """Objects of the KEDA example."""
    return cast("list[dict[str, Any]]", list(yaml.safe_load_all((DOCKER / "examples/keda.yml").read_text())))


def test_keda_scales_the_deployment_that_the_example_makes() -> None:
    kinds = {each["kind"]: each for each in kubernetes()}
    assert kinds["ScaledObject"]["spec"]["scaleTargetRef"]["name"] == kinds["Deployment"]["metadata"]["name"]
    triggers = {each["type"]: each["metadata"] for each in kinds["ScaledObject"]["spec"]["triggers"]}
    assert triggers["redis"]["listName"] == "celery"
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 20 + DRAIN_MARGIN


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_the_proxies_speak_to_the_published_port(name: str) -> None:
    text = (DOCKER / "examples" / name).read_text()
    assert default_of(SERVICES["web"]["ports"][0].rpartition(":")[0]) in text
    assert "PIHERDER_URL=https://herder.example.org" in text
