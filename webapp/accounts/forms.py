"""Forms of the account pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import PermissionDenied

from webapp.accounts import services
from webapp.accounts.roles import Role


class SignInForm(AuthenticationForm):
    """Name and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Adds the look."""
        super().__init__(*args, **kwargs)
        for name in ("username", "password"):
            self.fields[name].widget.attrs["class"] = "input"

    def clean(self) -> dict[str, Any]:
        """Check the password unless `refuse_guessing` refuses: a right guess then gets the answer of a wrong one."""
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
        error_messages={"required": "Enter a name for the token, so that its use is known later."},
    )
    role = forms.ChoiceField(label="Role", widget=forms.Select(attrs={"class": "input"}))
    days = forms.TypedChoiceField(
        label="Expires after",
        choices=[(30, "30 days"), (90, "90 days"), (365, "a year"), ("", "never")],
        initial=90,
        coerce=int,
        empty_value=None,
        required=False,
        widget=forms.Select(attrs={"class": "input"}),
    )

    def __init__(self, *args: Any, most: Role, **kwargs: Any) -> None:
        """`most`: the user's own role."""
        super().__init__(*args, **kwargs)
        roles = [role for role in Role if role.rank <= most.rank]
        field = self.fields["role"]
        assert isinstance(field, forms.ChoiceField)
        field.choices, field.initial = [(role.value, role.label) for role in roles], Role.VIEWER.value

    @property
    def token(self) -> dict[str, Any]:
        """For `services.create_token`."""
        return {**self.cleaned_data, "role": Role(self.cleaned_data["role"])}


class UserForm(forms.Form):
    """A new account."""

    username = forms.CharField(
        label="Name", max_length=150, widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"})
    )
    password = forms.CharField(
        label="Password",
        max_length=200,
        help_text="Give it to the user, who can change it on the account page.",
        widget=forms.PasswordInput(attrs={"class": "input", "autocomplete": "new-password"}),
    )
    role = forms.ChoiceField(
        label="Role", choices=Role.choices, initial=Role.VIEWER, widget=forms.Select(attrs={"class": "input"})
    )

    @property
    def cleaned_user(self) -> dict[str, Any]:
        """For `services.create_user`."""
        given = self.cleaned_data
        return {"name": given["username"], "password": given["password"], "role": Role(given["role"])}


class PasswordForm(forms.Form):
    """Another password of one's own."""

    old = forms.CharField(
        label="Current password",
        required=False,
        max_length=200,
        widget=forms.PasswordInput(attrs={"class": "input", "autocomplete": "current-password"}),
    )
    new = forms.CharField(
        label="New password",
        max_length=200,
        widget=forms.PasswordInput(attrs={"class": "input", "autocomplete": "new-password"}),
    )
