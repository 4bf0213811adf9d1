"""Finding hosts, sources and generations by what a person types."""

from __future__ import annotations

import re

from django.core.management.base import CommandError
from django.db.models import Exists, OuterRef

from hosts.enrol import host_named
from hosts.models import Generation, GenerationStatus, Host, Source
from hosts.store.paths import encode_name, normalise
from jobs.management.door import WRONG_USE


def any_host(name: str) -> Host:
    """A host of the herd, or one that was removed. Raises EnrolRefused."""
    return Host.objects.filter(name=name).first() or host_named(name)


def place_in_source(host: Host, path: str) -> tuple[Source, str]:
    """The source that holds an absolute path of the host, and the rest of the path in the form of `encode_name`.

    Of several (those that are switched off may lie in others) one of which something is kept goes before one without,
    then one that is still backed up, then the longest. Raises CommandError naming the sources, PathRefused for a path
    that is none.
    """
    shown = encode_name(normalise(path))
    good = Generation.objects.filter(source=OuterRef("pk"), status=GenerationStatus.GOOD)
    sources = list(host.sources.annotate(is_kept=Exists(good)))
    sources.sort(key=lambda source: (source.is_kept, source.enabled, len(source.path)), reverse=True)
    for source in sources:
        top = source.path.rstrip("/")
        if shown == source.path or shown.startswith(f"{top}/"):
            return source, shown[len(top) :].lstrip("/")
    known = ", ".join(source.path for source in sources) or "none"
    raise CommandError(f"{shown} lies in no source of {host.name}: it has {known}.", returncode=WRONG_USE)


def good_generation(source: Source, wanted: str) -> Generation:
    """A good generation by its number or "latest". Raises CommandError naming those there are."""
    good = source.generations.filter(status=GenerationStatus.GOOD).order_by("-sequence")
    if wanted != "latest" and not re.fullmatch(r"[0-9]{1,9}", wanted):
        raise CommandError(f"A generation is a number or latest, not {wanted!r}.", returncode=WRONG_USE)
    found = good.first() if wanted == "latest" else good.filter(sequence=int(wanted)).first()
    if found is None:
        numbers = ", ".join(str(number) for number in good.values_list("sequence", flat=True)[:20]) or "none"
        raise CommandError(f"{source} has no good generation {wanted}: there are {numbers}.", returncode=WRONG_USE)
    return found
