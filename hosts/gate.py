"""The engine's way to a host: are its ports open, does a login work, is it paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from hosts.access import NoWay, log_in
from hosts.models import Host
from hosts.ssh_errors import HostDown as SshDown
from hosts.ssh_errors import HostRefused as SshRefused
from hosts.tcp import tcp_open
from hosts.vault import SealBroken
from jobs import registry
from jobs.models import Failure
from jobs.registry import HostDown, HostRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from jobs.registry import Session

PROBE_SEC = 2.0


class Gate:
    """See `jobs.registry.HostGate`. Every contact is noted on the host: `last_seen`, or `last_error` in words."""

    def port_answers(self, host_ids: Sequence[int]) -> dict[int, bool]:
        """Try all TCP ports at once; a host behind a jump host cannot be tried from here and counts as answering."""
        rows = Host.objects.filter(pk__in=host_ids, jump__isnull=True).values_list("pk", "address", "port")
        direct = {pk: (address, port) for pk, address, port in rows}
        opened = dict(zip(direct, tcp_open(list(direct.values()), PROBE_SEC), strict=True))
        for pk, answers in opened.items():
            if not answers:
                note_failure(pk, "Nothing answers on its SSH port.")
        return {pk: opened.get(pk, True) for pk in host_ids}

    def open(self, host_id: int, check: Callable[[], None]) -> Session:
        """Log in. Raises HostDown or HostRefused with one sentence."""
        host = Host.objects.select_related("credential", "jump").get(pk=host_id)
        try:
            shell = log_in(host, check)
        except SshDown as error:
            note_failure(host_id, str(error))
            raise HostDown(str(error)) from None
        except SshRefused as error:
            note_failure(host_id, str(error))
            raise HostRefused(str(error), failure_of(error.code)) from None
        except (SealBroken, NoWay) as error:
            note_failure(host_id, str(error))
            raise HostRefused(str(error), Failure.REFUSED) from None
        Host.objects.filter(pk=host_id).update(last_seen=timezone.now(), last_error="", last_error_at=None)
        return shell

    def paused(self, host_id: int) -> str:
        """One sentence while the host is paused or removed, else ""."""
        host = Host.objects.filter(pk=host_id).first()
        if host is None or host.removed_at is not None:
            return "This host was removed: add it again first."
        if not host.paused():
            return ""
        until = f" until {host.paused_until:%Y-%m-%d %H:%M}" if host.paused_until else ""
        reason = f" ({host.pause_reason})" if host.pause_reason else ""
        return f"{host.name} is paused{until}{reason}: resume it first."

    def looks_down(self, host_id: int) -> bool:
        """True when the last contact failed, be it for want of an answer or by a refusal."""
        return Host.objects.filter(pk=host_id, last_error_at__isnull=False).exists()

    def herd(self) -> dict[int, str]:
        """All hosts that were not removed."""
        return dict(Host.herd.values_list("pk", "name"))

    def seen_since(self, host_id: int, moment: datetime) -> bool:
        """True when a login worked after `moment`."""
        return Host.herd.filter(pk=host_id, last_seen__gt=moment).exists()


def failure_of(code: str) -> Failure:
    """The engine's code for a refusal of the SSH layer."""
    return Failure(code) if code in Failure.values else Failure.REFUSED


def note_failure(host_id: int, why: str) -> None:
    """Remember why the last contact failed; the same reason again writes nothing (a host that is off wears no card)."""
    news = Host.objects.filter(pk=host_id).exclude(last_error=why[:300], last_error_at__isnull=False)
    news.update(last_error=why[:300], last_error_at=timezone.now())


def install() -> None:
    """Give the engine this gate."""
    registry.install_gate(Gate())
