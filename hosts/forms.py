"""Forms of the pages about hosts; what a kind of work needs is checked by the kind's own form."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils import timezone

from hosts.models import Generation, Host
from jobs import registry

if TYPE_CHECKING:
    from datetime import datetime

    from jobs.registry import Family

    HostChoice = forms.ModelMultipleChoiceField[Host]
else:
    HostChoice = forms.ModelMultipleChoiceField

NEEDS_MORE = {"restore"}  # has a form of its own


def host_kinds() -> list[Family]:
    """Kinds that a button starts on a host without further words, the most wanted first."""
    found = [each for each in registry.kinds() if each.needs_host and each.kind not in NEEDS_MORE]
    return sorted(found, key=lambda each: (each.kind != "backup", each.label))


class RunForm(forms.Form):
    """One kind of work."""

    kind = forms.ChoiceField(label="Work")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["kind"].choices = [(each.kind, each.label) for each in host_kinds()]  # type: ignore[attr-defined]  # a ChoiceField


class HostsField(HostChoice):
    """Hosts by their ids; a number that no id can be is no choice (SQLite would stumble over it)."""

    def clean(self, value: Any) -> Any:
        """The rows."""
        if any(not re.fullmatch(r"[0-9]{1,18}", str(each)) for each in value or ()):
            raise forms.ValidationError(self.error_messages["invalid_choice"], code="invalid_choice")
        return super().clean(value)


class HerdRunForm(RunForm):
    """One kind of work on several hosts."""

    hosts = HostsField(
        Host.herd.all(),
        error_messages={"required": "Choose at least one host.", "invalid_choice": "That host is gone."},
    )


class PauseForm(forms.Form):
    """Why and for how long; without hours until someone resumes the host."""

    reason = forms.CharField(required=False, max_length=200)
    hours = forms.IntegerField(
        required=False, min_value=1, max_value=8760, label="Hours", help_text="Empty: until resumed."
    )

    def until(self) -> datetime | None:
        """The moment the pause ends."""
        hours = self.cleaned_data["hours"]
        return timezone.now() + timedelta(hours=hours) if hours else None


class KeepForm(forms.Form):
    """Why a generation is kept for ever."""

    note = forms.CharField(required=False, max_length=200)


class RestoreForm(forms.Form):
    """Where one generation goes; the kind's own form says what is wrong with a path."""

    host = forms.ModelChoiceField(Host.herd.all(), label="To host", empty_label=None)
    path = forms.CharField(
        required=False, strip=False, label="What", help_text="File or folder inside the source; empty: all of it."
    )
    to_path = forms.CharField(
        required=False, strip=False, label="To folder", help_text="Absolute; empty: where it came from."
    )
    delete = forms.BooleanField(
        required=False, label="Delete there what the generation does not have", help_text="Only with a whole source."
    )
    allow_system = forms.BooleanField(required=False, label="Allow a folder of the operating system, such as /usr")
    dry_run = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def params(self, generation: Generation) -> dict[str, Any]:
        """Parameters of the kind `restore`."""
        goal, owner = self.cleaned_data["host"], generation.source.host
        chosen = {name: self.cleaned_data[name] for name in ("path", "to_path", "dry_run", "delete", "allow_system")}
        named = {"from_host": "" if goal == owner else owner.name, "source": generation.source.path}
        return {**named, "sequence": str(generation.sequence), **chosen}
