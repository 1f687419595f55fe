"""Signing in and out, API tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth import get_user_model, login, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import ConfigurationError
from webapp.accounts import audit, services
from webapp.accounts.forms import PasswordForm, SignInForm, TokenForm, UserForm
from webapp.accounts.models import ApiToken, AuditEntry
from webapp.accounts.roles import Role, role_of
from webapp.accounts.selectors import AuditFilters, audit_log
from webapp.web.paging import Pager, page_number

AUDIT_LINES = 50


class SignIn(LoginView):
    """By name and password."""

    template_name = "accounts/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Record the sign-in in the audit log, as refused ones are."""
        answer = super().form_valid(form)
        audit.enter("signed_in", "Signed in", user=form.get_user())
        return answer


@never_cache
@require_safe
def sign_in_once(request: HttpRequest, token: str) -> HttpResponse:
    """The link that `make demo` prints."""
    user = services.use_one_time_login(token=token)
    if user is None:
        messages.error(request, "This sign-in link was already used or has expired. Request a new one, or sign in.")
        return redirect("accounts:sign_in")
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    audit.enter("signed_in", "Signed in by a link", user=user)
    return redirect("replicators:fleet")


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Ends the session."""
    if request.user.is_authenticated:
        audit.enter("signed_out", "Signed out")
    logout(request)
    messages.info(request, "You are signed out.")
    return redirect("accounts:sign_in")


@never_cache
@login_required
def tokens(request: HttpRequest) -> HttpResponse:
    """List and create; the plain token is in the answer to the creation and nowhere else."""
    user = cast("User", request.user)
    form = TokenForm(request.POST or None, most=role_of(user))
    plain = ""
    if request.method == "POST" and form.is_valid():
        plain = services.create_token(user=user, **form.token)
        form = TokenForm(most=role_of(user))
    context = {
        "form": form, "password_form": PasswordForm(), "plain": plain, "section": "api", "now": timezone.now(),
        "tokens": ApiToken.objects.filter(user=user),
    }  # fmt: skip
    return render(request, "accounts/tokens.html", context)


@login_required
@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Only one's own tokens."""
    token = get_object_or_404(ApiToken, pk=pk, user=cast("User", request.user))
    services.revoke_token(token=token)
    messages.success(request, f"The token {token.name} is revoked and no longer works.")
    return redirect("accounts:tokens")


@never_cache
@login_required
@require_POST
def password(request: HttpRequest) -> HttpResponse:
    """One's own."""
    user, form = cast("User", request.user), PasswordForm(request.POST)
    if form.is_valid():
        try:
            services.change_password(user=user, old=form.cleaned_data["old"], new=form.cleaned_data["new"])
        except ConfigurationError as error:
            messages.error(request, error.message)
        else:
            update_session_auth_hash(request, user)
            messages.success(request, "Password changed. All other sessions are signed out.")
    else:
        messages.error(request, "Enter the new password.")
    return redirect("accounts:tokens")


@never_cache
@login_required
def users(request: HttpRequest) -> HttpResponse:
    """Who has an account: made, given another role or password, let in no more."""
    by, form = cast("User", request.user), UserForm(None)
    if request.method == "POST":
        given = request.POST
        form = UserForm(given if "username" in given else None)
        try:
            if not form.is_bound:
                found = get_object_or_404(get_user_model(), pk=_number(given.get("user", "")))
                services.update_user(user=found, **_changes(given), by=by)
                messages.success(request, f"{found.get_username()} is changed.")
                return redirect("accounts:users")
            if form.is_valid():
                made = services.create_user(**form.cleaned_user, by=by)
                messages.success(request, f"{made.get_username()} may sign in.")
                return redirect("accounts:users")
        except ConfigurationError as error:
            message = f"{error.message} {error.remedy}".strip()
            if form.is_bound:
                form.add_error(None, message)
            else:
                messages.error(request, message)
    lines = [(user, role_of(user)) for user in get_user_model().objects.order_by("username")]
    return render(request, "accounts/users.html", {"form": form, "lines": lines, "roles": Role, "section": "users"})


def _number(text: str) -> int:
    return int(text) if text.isdigit() and len(text) < 10 else 0  # noqa: PLR2004 - digits of a key


def _changes(given: Mapping[str, str]) -> dict[str, Any]:
    """Of one line of the table; an unknown role is none."""
    changed: dict[str, Any] = {}
    if given.get("role") in Role.values:
        changed["role"] = Role(given["role"])
    if given.get("active") in {"yes", "no"}:
        changed["active"] = given["active"] == "yes"
    return changed | ({"password": given["password"]} if given.get("password") else {})


@never_cache
@login_required
@require_safe
def audit_page(request: HttpRequest) -> HttpResponse:
    """Who did what, newest first."""
    filters = AuditFilters.of(request.GET)
    found, page = audit_log(filters), page_number(request.GET)
    pager = Pager(page, AUDIT_LINES, found.count(), request.path, request.GET)
    lines = found[pager.first - 1 : pager.first - 1 + AUDIT_LINES]
    kinds = AuditEntry.objects.order_by("kind").values_list("kind", flat=True).distinct()
    people = AuditEntry.objects.order_by("who").values_list("who", flat=True).distinct()
    context = {"filters": filters, "pager": pager, "lines": lines, "kinds": kinds, "people": people, "section": "users"}
    return render(request, "accounts/audit.html", context)
