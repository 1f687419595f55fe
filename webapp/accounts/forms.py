"""Forms of the account pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm


class SignInForm(AuthenticationForm):
    """Name and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Adds the look."""
        super().__init__(*args, **kwargs)
        for name in ("username", "password"):
            self.fields[name].widget.attrs["class"] = "input"


class TokenForm(forms.Form):
    """A new API token."""

    name = forms.CharField(
        label="Name",
        max_length=100,
        help_text="What will use it, for example “nightly checks”.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
        error_messages={"required": "Give the token a name, so that you know later what it is for."},
    )
