"""Forms of the pages about jobs, besides the filter of the list."""

from __future__ import annotations

from django import forms


class HoldForm(forms.Form):
    """Why the herd is held."""

    reason = forms.CharField(required=False, max_length=200)
