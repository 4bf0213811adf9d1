"""A host that was removed and is added again: what it brings back, and what of the old machine it must not."""

from __future__ import annotations

from typing import Any, Final

from hosts.models import Generation, GenerationStatus, Host
from hosts.words import count

# The name and the backups are the same; the machine behind them may be another. It is not given the old one's password,
# runs none of its commands, and starts unpaused.
ANEW: Final[dict[str, Any]] = {
    "removed_at": None, "last_error": "", "last_error_at": None,
    "sudo_password_sealed": "", "before_hook": "", "after_hook": "", "after_hook_owed_at": None,
    "hooks_touch_stacks": False, "paused_at": None, "paused_until": None, "pause_reason": "",
}  # fmt: skip


def brought_back(name: str) -> str:
    """What is there of a removed host of this name, such as "2 old sources and 5 generations"; "" without one."""
    gone = Host.objects.filter(name=name, removed_at__isnull=False).first()
    if gone is None:
        return ""
    kept = Generation.objects.filter(source__host=gone, status=GenerationStatus.GOOD).count()
    return f"{count(gone.sources.count(), 'old source')} and {count(kept, 'generation')}"
