"""What the pages about accounts send."""

from __future__ import annotations

from django import forms

from piherder.accounts.roles import Role


class RoleForm(forms.Form):
    """One of the three roles."""

    role = forms.ChoiceField(choices=Role.choices)


class DutyForm(forms.Form):
    """In how many days everyone needs a second step; nothing for never."""

    days = forms.IntegerField(
        min_value=0,
        max_value=90,
        required=False,
        error_messages={"invalid": "Give the time of grace in whole days, 0 to 90, or nothing."},
    )
