"""Taking hosts into the herd, changing, pausing and removing them, without any of them being there."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts import enrol
from hosts.access import target_of
from hosts.enrol import EnrolRefused, LoginKey, StillActive
from hosts.host_key import HostKey as Pin
from hosts.host_key import parse_public_line
from hosts.host_keys import generate_key
from hosts.models import BackupRoot, Credential, Generation, GenerationStatus, Host
from hosts.store.paths import PathRefused
from jobs.models import Door
from jobs.services import Asker, Refused, request_job

if TYPE_CHECKING:
    from hosts.models import Source

pytestmark = pytest.mark.django_db
KEY = LoginKey(*generate_key("tests"))
PIN = parse_public_line(generate_key("host")[1])
ASKER = Asker(Door.COMMAND, name="tests")


def added(name: str = "pi1", **fields: Any) -> Host:
    """A host as a door adds it."""
    return enrol.add(name, KEY, [PIN], by="tests", **{"address": "192.0.2.1", **fields})


def kept(source: Source) -> Generation:
    """A good generation of a source."""
    root, _ = BackupRoot.objects.get_or_create(path="/nowhere")
    return Generation.objects.create(
        source=source, sequence=1, folder="1", root=root, status=GenerationStatus.GOOD, finished_at=timezone.now()
    )


def test_a_host_is_stored_with_what_proves_and_opens_it() -> None:
    host = Host.herd.get(pk=added(port=2222, user="ann").pk)
    target = target_of(host)
    assert (target.address, target.port, target.user) == ("192.0.2.1", 2222, "ann")
    assert (target.pins, target.private_key) == ((PIN,), KEY.private)
    assert host.keys.get().pinned_by == "tests"


def test_the_private_key_is_sealed() -> None:
    added()
    assert "PRIVATE KEY" not in Credential.objects.get().private_key_sealed


def test_sources_are_checked_before_anything_is_stored() -> None:
    with pytest.raises(PathRefused):
        added(sources=["/srv", "/proc/1"])
    assert not Host.objects.exists()


def test_sources_get_folders_that_differ() -> None:
    host = added(sources=["/srv/a-b", "/srv/a/b"], excludes=["*.tmp"])
    folders = set(host.sources.values_list("folder", flat=True))
    assert len(folders) == 2
    assert {tuple(source.excludes) for source in host.sources.all()} == {("*.tmp",)}


@pytest.mark.parametrize("path", ["/srv/data/x", "/srv"])
def test_sources_that_lie_in_each_other_are_refused(path: str) -> None:
    host = added(sources=["/srv/data"])
    with pytest.raises(EnrolRefused, match="lie in each other"):
        enrol.add_source(host, path)


@pytest.mark.parametrize("path", ["/srv/data/x", "/srv"])
def test_old_sources_of_a_removed_host_name_the_way_out(path: str) -> None:
    host = added(sources=["/srv/data"])
    enrol.remove(host)
    words = f"{path} and the source /srv/data lie in each other: add {host.name} without --source, which brings back "
    with pytest.raises(EnrolRefused, match=f"{words}those it had, then change them with edit_host."):
        added(sources=[path])
    assert added(sources=[]).pk == host.pk
    enrol.remove(host)
    assert added(sources=["/srv/data"]).sources.get().enabled


def test_neighbours_with_a_common_beginning_are_no_overlap() -> None:
    host = added(sources=["/srv/data"])
    assert enrol.add_source(host, "/srv/data2").path == "/srv/data2"


def test_a_taken_name_is_refused() -> None:
    added()
    with pytest.raises(EnrolRefused, match="already a host called pi1"):
        added()


@pytest.mark.parametrize("fields", [{"port": 0}, {"port": 70_000}, {"address": ""}, {"keep_last": 0}])
def test_a_field_that_is_wrong_stores_nothing(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        added(**fields)
    assert not Host.objects.exists()
    assert not Credential.objects.exists()


def test_one_key_for_two_hosts_is_one_row() -> None:
    assert added("pi1").credential == added("pi2").credential


def test_another_key_gets_a_free_name() -> None:
    added()
    second = enrol.store_key("pi1", LoginKey(*generate_key("more")))
    third = enrol.store_key("pi1", LoginKey(*generate_key("most")))
    assert (second.name, third.name) == ("pi1-2", "pi1-3")


def test_a_host_cannot_be_its_own_way() -> None:
    first = added("pi1")
    second = added("pi2", jump=first)
    with pytest.raises(EnrolRefused, match="cannot be reached through itself"):
        enrol.save(first, jump=second)


def test_the_fingerprint_picks_its_key() -> None:
    other = parse_public_line(generate_key("other")[1])
    assert enrol.pick([other, PIN], PIN.fingerprint) == (PIN,)
    assert enrol.pick([PIN], PIN.fingerprint.removeprefix("SHA256:")) == (PIN,)


def test_a_fingerprint_that_is_not_shown_is_refused_with_those_that_are() -> None:
    with pytest.raises(EnrolRefused, match=r"does not show the key SHA256:nonsense but SHA256:") as refusal:
        enrol.pick([PIN], "SHA256:nonsense")
    assert PIN.fingerprint in str(refusal.value)


def test_pinning_anew_forgets_the_old_keys() -> None:
    host = added()
    fresh = parse_public_line(generate_key("fresh")[1])
    enrol.pin(host, [fresh], by="ann")
    assert target_of(host).pins == (Pin(fresh.key_type, fresh.public_base64),)


@pytest.mark.parametrize("text", ["", "nonsense", KEY.public], ids=["empty", "nonsense", "public"])
def test_what_is_no_private_key_is_refused_in_words(text: str) -> None:
    with pytest.raises(EnrolRefused, match="cannot be read"):
        enrol.read_login_key(text)


def test_a_private_key_is_read_with_its_public_half() -> None:
    assert enrol.read_login_key(KEY.private).fingerprint == KEY.fingerprint


def test_a_schedule_is_made_once_and_not_overwritten() -> None:
    host = added()
    row = enrol.backup_schedule(host)
    PeriodicTask.objects.filter(pk=row.pk).update(enabled=False)
    assert not enrol.backup_schedule(host).enabled
    assert PeriodicTask.objects.count() == 1


def test_rescheduling_moves_the_same_row() -> None:
    host = added()
    row = enrol.backup_schedule(host)
    moved = enrol.reschedule(host, "0 4 * * 1", "Europe/Berlin")
    assert (moved.pk, moved.crontab.hour, str(moved.crontab.timezone)) == (row.pk, "4", "Europe/Berlin")


@pytest.mark.parametrize(("cron", "zone"), [("0 4", ""), ("0 99 * * *", ""), ("0 4 * * *", "Nowhere/Land")])
def test_a_rhythm_that_cannot_be_read_is_refused(cron: str, zone: str) -> None:
    with pytest.raises(EnrolRefused):
        enrol.reschedule(added(), cron, zone)


def test_a_removed_host_keeps_what_was_kept_of_it() -> None:
    host = added(sources=["/srv"])
    kept(host.sources.get())
    enrol.backup_schedule(host)
    assert enrol.remove(host) == 1
    assert not Host.herd.exists()
    assert Generation.objects.count() == 1
    assert not PeriodicTask.objects.get().enabled


def test_schedules_of_other_hosts_stay_on() -> None:
    host, other = added("pi1"), added("pi2")
    enrol.backup_schedule(host)
    row = enrol.backup_schedule(other)
    enrol.remove(host)
    row.refresh_from_db()
    assert row.enabled


def test_nothing_starts_on_a_removed_host() -> None:
    host = added()
    enrol.remove(host)
    with pytest.raises(Refused, match="removed"):
        request_job("host_facts", host.pk, asker=ASKER)


def test_a_host_with_active_work_is_not_removed() -> None:
    host = added()
    job = request_job("host_facts", host.pk, asker=ASKER).job
    with pytest.raises(StillActive, match=rf"job {job.pk} \(host_facts\)"):
        enrol.remove(host)
    assert Host.herd.exists()


def test_a_jump_host_is_not_removed_from_under_others() -> None:
    first = added("pi1")
    added("pi2", jump=first)
    with pytest.raises(EnrolRefused, match="jump host of pi2"):
        enrol.remove(first)


def test_a_removed_host_is_revived_with_its_generations_and_schedule() -> None:
    host = added(sources=["/srv"])
    generation = kept(host.sources.get())
    enrol.backup_schedule(host)
    enrol.remove(host)
    again = added(address="192.0.2.9", sources=["/srv"], schedule=True)
    assert (again.pk, again.address, again.removed_at) == (host.pk, "192.0.2.9", None)
    assert again.sources.get().generations.get() == generation
    assert PeriodicTask.objects.get().enabled


def test_a_source_with_generations_is_only_switched_off() -> None:
    host = added(sources=["/srv", "/home"])
    kept(host.sources.get(path="/srv"))
    assert not enrol.remove_source(host, "/srv/")
    assert enrol.remove_source(host, "/home")
    assert [(source.path, source.enabled) for source in host.sources.all()] == [("/srv", False)]
    assert enrol.add_source(host, "/srv").enabled


def test_a_source_that_is_switched_on_again_may_lie_in_no_other() -> None:
    host = added(sources=["/srv"])
    kept(host.sources.get())
    enrol.remove_source(host, "/srv")
    enrol.add_source(host, "/srv/data")
    with pytest.raises(EnrolRefused, match="/srv and the source /srv/data lie in each other"):
        enrol.add_source(host, "/srv")
    assert not host.sources.get(path="/srv").enabled


def test_a_source_that_is_on_may_be_named_again() -> None:
    host = added(sources=["/srv"])
    assert enrol.add_source(host, "/srv", ["*.tmp"]).excludes == ["*.tmp"]


def test_a_revived_host_keeps_nothing_of_the_old_machine() -> None:
    past = timezone.now() - timedelta(days=1)
    host = added(
        sudo_password_sealed="sealed", before_hook="docker stop db", after_hook="docker start db", keep_last=9,
        after_hook_owed_at=past, hooks_touch_stacks=True, paused_at=past, pause_reason="moving house",
    )  # fmt: skip
    enrol.remove(host)
    again = Host.herd.get(pk=added().pk)
    assert (again.sudo_password_sealed, again.before_hook, again.after_hook, again.pause_reason) == ("", "", "", "")
    assert (again.after_hook_owed_at, again.hooks_touch_stacks, again.paused()) == (None, False, False)
    assert again.keep_last == 9


def test_a_revived_host_without_the_wish_has_no_schedule_on() -> None:
    host = added(schedule=True)
    enrol.remove(host)
    added()
    assert not PeriodicTask.objects.get().enabled


def test_a_pause_lasts_until_its_moment() -> None:
    host = added()
    enrol.pause(host, "new disk", timezone.now() + timedelta(hours=1))
    host.refresh_from_db()
    assert host.paused()
    assert not host.paused(timezone.now() + timedelta(hours=2))
    enrol.resume(host)
    host.refresh_from_db()
    assert not host.paused()


def test_a_pause_cannot_end_in_the_past() -> None:
    with pytest.raises(EnrolRefused, match="has passed"):
        enrol.pause(added(), until=timezone.now() - timedelta(minutes=1))
