"""Taking a host into the herd, changing it, pausing it and letting it go: one set of verbs for every door."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts.host_key import BadKey, parse_public_line
from hosts.login_key import generate_key, public_from_private
from hosts.models import Credential, Host, HostKey, Source
from hosts.returning import ANEW
from hosts.store.layout import source_folder_name
from hosts.store.paths import check_source, encode_name
from hosts.vault import seal
from jobs import schedules
from jobs.services import active_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from hosts.host_key import HostKey as Pin

NIGHTLY, SPREAD_MIN = "30 2 * * *", 60


class EnrolRefused(Exception):
    """A wish about a host that cannot be met; the text is one plain sentence. `wrong_use` tells slips from states."""

    def __init__(self, message: str, *, wrong_use: bool = False) -> None:
        super().__init__(message)
        self.wrong_use = wrong_use


class StillActive(EnrolRefused):
    """Jobs of the host have not ended."""


@dataclass(frozen=True, slots=True)
class LoginKey:
    """A key pair before it is stored."""

    private: str
    public: str

    @property
    def fingerprint(self) -> str:
        """As OpenSSH prints it."""
        return parse_public_line(self.public).fingerprint


def new_login_key(host: str) -> LoginKey:
    """A new ed25519 pair, its comment naming the host."""
    return LoginKey(*generate_key(f"piherder@{host}"))


def read_login_key(text: str) -> LoginKey:
    """A private key as OpenSSH or PEM text. Raises EnrolRefused in words."""
    try:
        return LoginKey(text.strip() + "\n", public_from_private(text))
    except BadKey as error:
        raise EnrolRefused(str(error), wrong_use=True) from None


def host_named(name: str) -> Host:
    """A host of the herd. Raises EnrolRefused naming those that exist."""
    host = Host.herd.select_related("credential", "jump", "backup_root").filter(name=name).first()
    if host is None:
        known = list(Host.herd.values_list("name", flat=True)[:10])
        those = f"known are {', '.join(known)}" if known else "add one with ./herder add_host"
        raise EnrolRefused(f"There is no host called {name}: {those}.", wrong_use=True)
    return host


def pick(keys: Sequence[Pin], fingerprint: str) -> tuple[Pin, ...]:
    """The shown key with this fingerprint. Raises EnrolRefused when the host shows no such key."""
    wanted = fingerprint if fingerprint.startswith("SHA256:") else f"SHA256:{fingerprint}"
    found = tuple(key for key in keys if key.fingerprint == wanted)
    if not found:
        shown = ", ".join(f"{key.fingerprint} ({key.key_type})" for key in keys)
        raise EnrolRefused(
            f"The host does not show the key {wanted} but {shown}: compare it with the host's own screen, and connect "
            "only if it is there."
        )
    return found


def add(
    name: str,
    key: LoginKey,
    pins: Iterable[Pin],
    *,
    by: str,
    sources: Iterable[str] = (),
    excludes: Sequence[str] = (),
    allow_system: bool = False,
    schedule: bool = False,
    **fields: Any,
) -> Host:
    """Store a host with its login key, pins and sources; a removed host of that name is revived with its generations.

    `schedule`: it gets its nightly backup, or all the schedules that it had. `fields` are those of the model. Raises
    EnrolRefused, PathRefused or ValidationError; nothing is stored then.
    """
    paths = [check_source(path, allow_system=allow_system) for path in sources]
    with transaction.atomic():
        host = Host.objects.filter(name=name).first() or Host(name=name)
        if host.pk and host.removed_at is None:
            raise EnrolRefused(f"There is already a host called {name}: use edit_host.", wrong_use=True)
        if host.pk:
            _refuse_old_sources(host, paths)
        save(host, **{**ANEW, **fields, "credential": store_key(name, key)})
        pin(host, pins, by=by)
        for path in paths:
            add_source(host, path, excludes, allow_system=allow_system)
        if schedule:
            backup_schedule(host)
            _schedules_of(host).update(enabled=True)
    return host


def check(host: Host, **fields: Any) -> None:
    """Set fields and look whether they may be so; nothing is stored.

    Raises ValidationError for what is wrong, EnrolRefused for jump hosts in a circle.
    """
    for name, value in fields.items():
        setattr(host, name, value)
    way = host.jump
    while way is not None:
        if way.pk == host.pk or way.name == host.name:
            raise EnrolRefused(
                f"{host.name} cannot be reached through itself: choose another jump host.", wrong_use=True
            )
        way = way.jump
    host.full_clean()


def save(host: Host, **fields: Any) -> None:
    """`check` fields and store them, and of a host that is there no others: a worker may have written those since the
    row was read.
    """
    check(host, **fields)
    host.save(update_fields=list(fields) if host.pk else None)


def store_key(name: str, key: LoginKey) -> Credential:
    """The stored pair with this fingerprint, or a new row whose name begins with `name`."""
    there = Credential.objects.filter(fingerprint=key.fingerprint).first()
    if there:
        return there
    taken = set(Credential.objects.filter(name__startswith=name).values_list("name", flat=True))
    names = [name, *(f"{name}-{number}" for number in range(2, len(taken) + 2))]
    free = next(each for each in names if each not in taken)
    return Credential.objects.create(
        name=free, public_key=key.public, fingerprint=key.fingerprint, private_key_sealed=seal(key.private)
    )


def pin(host: Host, pins: Iterable[Pin], *, by: str) -> None:
    """These keys, and no others, prove the host from now on."""
    with transaction.atomic():
        host.keys.all().delete()
        for key in pins:
            HostKey.objects.create(
                host=host,
                key_type=key.key_type,
                public=key.public_base64,
                fingerprint=key.fingerprint,
                pinned_by=by[:150],
            )


def add_source(host: Host, path: str, excludes: Sequence[str] = (), *, allow_system: bool = False) -> Source:
    """A folder to back up; one that was switched off is switched on again. Raises PathRefused or EnrolRefused."""
    text = check_source(path, allow_system=allow_system)
    shown = encode_name(text)
    there = host.sources.filter(path=shown).first()
    if there:
        if not there.enabled:
            refuse_overlap(host, shown)
        there.enabled, there.excludes = True, list(excludes) or there.excludes
        there.save(update_fields=["enabled", "excludes"])
        return there
    refuse_overlap(host, shown)
    return Source.objects.create(
        host=host, path=shown, folder=source_folder_name(text), excludes=list(excludes), one_file_system=shown == "/"
    )


def stay_on_one(host: Host, path: str, *, stay: bool) -> None:
    """Leave out other filesystems mounted below a source, or not. Raises EnrolRefused."""
    source = source_of(host, path)
    if source.path == "/" and not stay:
        raise EnrolRefused("Below / other filesystems are always left out: add those as sources.", wrong_use=True)
    source.one_file_system = stay
    source.save(update_fields=["one_file_system"])


def _refuse_old_sources(host: Host, paths: Iterable[str]) -> None:
    """A removed host brings back its sources, which only edit_host can switch off. Raises EnrolRefused."""
    way = f"add {host.name} without --source, which brings back those it had, then change them with edit_host"
    for path in map(encode_name, paths):
        if not host.sources.filter(path=path, enabled=True).exists():
            refuse_overlap(host, path, way)


def refuse_overlap(host: Host, path: str, way: str = "choose one") -> None:
    """Two sources that are backed up may not lie in each other; `way` is what to do. Raises EnrolRefused."""
    for other in host.sources.filter(enabled=True).values_list("path", flat=True):
        if f"{path}/".startswith(f"{other.rstrip('/')}/") or f"{other}/".startswith(f"{path.rstrip('/')}/"):
            raise EnrolRefused(f"{path} and the source {other} lie in each other: {way}.", wrong_use=True)


def source_of(host: Host, path: str) -> Source:
    """The host's source of exactly this path. Raises EnrolRefused naming those it has."""
    found = host.sources.filter(path=encode_name(path.rstrip("/") or "/")).first()
    if found is None:
        known = ", ".join(host.sources.values_list("path", flat=True)) or "none"
        raise EnrolRefused(f"{host.name} has no source {path}: it has {known}.", wrong_use=True)
    return found


def remove_source(host: Host, path: str) -> bool:
    """Stop backing a source up. Its row goes only when nothing was kept of it; True when it went."""
    source = source_of(host, path)
    if source.generations.exists():
        source.enabled = False
        source.save(update_fields=["enabled"])
        return False
    source.delete()
    return True


def _schedules_of(host: Host) -> Any:
    rows = PeriodicTask.objects.filter(task=schedules.SCHEDULE)
    return rows.filter(pk__in=[row.pk for row in rows if _host_id_in(row.kwargs) == host.pk])


def _host_id_in(kwargs: str) -> int | None:
    try:
        found = json.loads(kwargs or "{}").get("host_id")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, int) else None


def backup_schedule(host: Host) -> PeriodicTask:
    """The host's nightly backup schedule, made when it is not there."""
    wish = {"kind": "backup", "host_id": host.pk, "spread_min": SPREAD_MIN}
    return schedules.ensure(f"Backup of {host.name}", wish, cron=NIGHTLY)


def reschedule(host: Host, cron: str, zone: str = "") -> PeriodicTask:
    """Move the host's backup schedule to another rhythm and switch it on. Raises EnrolRefused in words."""
    try:
        crontab = schedules.crontab_row(cron, zone)
    except (ValueError, ValidationError) as error:
        raise EnrolRefused(str(error), wrong_use=True) from None
    row = backup_schedule(host)
    row.crontab, row.interval, row.enabled = crontab, None, True
    row.save()
    return row


def remove(host: Host) -> int:
    """Let a host go: its rows, pins and generations stay, its schedules are switched off. Returns how many were.

    Raises StillActive while jobs have not ended, EnrolRefused while it is another's jump host.
    """
    _refuse_active(host)
    behind = list(Host.herd.filter(jump=host).values_list("name", flat=True))
    if behind:
        raise EnrolRefused(f"{host.name} is the jump host of {', '.join(behind)}: edit those first.")
    with transaction.atomic():
        gone = Host.herd.filter(pk=host.pk).update(removed_at=timezone.now())
        count: int = _schedules_of(host).filter(enabled=True).update(enabled=False) if gone else 0
        _refuse_active(host)
    return count


def _refuse_active(host: Host) -> None:
    active = active_jobs(host.pk)
    if active:
        named = ", ".join(f"job {job.pk} ({job.kind})" for job in active)
        raise StillActive(f"{host.name} has work that has not ended: {named}; cancel it or wait for its end.")


def pause(host: Host, reason: str = "", until: datetime | None = None) -> None:
    """Nothing new starts on the host until `until` or for ever. Raises EnrolRefused for a moment that has passed."""
    if until is not None and until <= timezone.now():
        raise EnrolRefused(
            f"{timezone.localtime(until):%Y-%m-%d %H:%M} has passed: name a later moment.", wrong_use=True
        )
    values = {"paused_at": timezone.now(), "paused_until": until, "pause_reason": reason[:200]}
    Host.objects.filter(pk=host.pk).update(**values)


def resume(host: Host) -> None:
    """End the pause."""
    Host.objects.filter(pk=host.pk).update(paused_at=None, paused_until=None, pause_reason="")
