"""Secrets are masked at the source: before a line reaches the log, the rows or the end of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.transitions import End

Mask = Callable[[str], str]
HIDDEN = "••••••"
SHORTEST = 4  # a shorter secret would hide half of every log, and tell where it stands


def mask_of(secrets: Iterable[str]) -> Mask:
    """A function that hides `secrets` in a text, longest first, so that one inside another leaves no rest."""
    known = sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True)

    def mask(text: str) -> str:
        for secret in known:
            text = text.replace(secret, HIDDEN)
        return text

    return mask


def masked(end: End, mask: Mask) -> End:
    """The end of a job with its sentences masked."""
    return replace(end, summary=mask(end.summary), error=mask(end.error))
