"""What a request must meet before it may come in, whichever door or job it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs import registry
from jobs.models import EngineSettings
from jobs.registry import UnknownKind

if TYPE_CHECKING:
    from jobs.models import Job
    from jobs.registry import Family, Params


class Refused(Exception):
    """A request that cannot be met now; `code` is one of invalid, held, paused, busy, unavailable, over."""

    def __init__(self, message: str, code: str, job: Job | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.job = job


def checked(kind: str, host_id: int | None, params: Params) -> tuple[Family, Params]:
    """The family of `kind` and the parameters as its form cleans them. Raises Refused."""
    family = _family(kind)
    _check_host(family, host_id)
    _check_holds(host_id)
    return family, clean(family, params)


def _family(kind: str) -> Family:
    try:
        return registry.get(kind)
    except UnknownKind as unknown:
        raise Refused(str(unknown), "invalid") from None


def _check_host(family: Family, host_id: int | None) -> None:
    if family.needs_host and host_id is None:
        raise Refused(f"{family.label} needs a host: name one.", "invalid")
    if not family.needs_host and host_id is not None:
        raise Refused(f"{family.label} takes no host.", "invalid")
    if host_id is not None and host_id not in registry.gate().herd():
        raise Refused(f"There is no host with the id {host_id}: it was removed or never added.", "invalid")


def _check_holds(host_id: int | None) -> None:
    switch = EngineSettings.load()
    if switch.held:
        reason = f" ({switch.hold_reason})" if switch.hold_reason else ""
        raise Refused(f"The herd is on hold{reason}: release it first.", "held")
    why = registry.gate().paused(host_id) if host_id is not None else ""
    if why:
        raise Refused(why, "paused")


def clean(family: Family, params: Params) -> Params:
    """Parameters as the kind's form cleans them. Raises Refused naming the first field that is wrong."""
    if family.form_class is None:
        if params:
            raise Refused(f"{family.label} takes no parameters.", "invalid")
        return {}
    unknown = set(params) - set(family.form_class.base_fields)
    if unknown:
        known = ", ".join(sorted(family.form_class.base_fields)) or "none"
        raise Refused(f"{family.label} has no parameter {sorted(unknown)[0]}: known are {known}.", "invalid")
    form = family.form_class(params)
    if not form.is_valid():
        field, errors = next(iter(form.errors.items()))
        place = "" if field == "__all__" else f"{field}: "
        raise Refused(f"{place}{errors[0]}", "invalid")
    return dict(form.cleaned_data)
