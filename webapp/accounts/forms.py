"""Forms of the account pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import PermissionDenied

from webapp.accounts import services


class SignInForm(AuthenticationForm):
    """Name and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Adds the look."""
        super().__init__(*args, **kwargs)
        for name in ("username", "password"):
            self.fields[name].widget.attrs["class"] = "input"

    def clean(self) -> dict[str, Any]:
        """Not asked where somebody guesses: a right guess looks then like a wrong one."""
        name = str(self.cleaned_data.get("username", ""))[:150]
        address = str(self.request.META.get("REMOTE_ADDR", "")) if self.request else ""
        try:
            services.refuse_guessing(name=name, address=address)
        except PermissionDenied as error:
            raise forms.ValidationError(str(error), code="guessing") from None
        try:
            return super().clean()
        except forms.ValidationError:
            services.note_failed_sign_in(name=name, address=address)
            raise


class TokenForm(forms.Form):
    """A new API token."""

    name = forms.CharField(
        label="Name",
        max_length=100,
        help_text="What will use it, for example “nightly checks”.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
        error_messages={"required": "Give the token a name, so that you know later what it is for."},
    )
