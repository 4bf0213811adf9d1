"""What the pages about accounts send."""

from __future__ import annotations

from django import forms

from piherder.accounts.roles import Role


class RoleForm(forms.Form):
    """One of the three roles."""

    role = forms.ChoiceField(choices=Role.choices)
