"""Signing in and out, API tokens."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth import login, logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts import services
from webapp.accounts.forms import SignInForm, TokenForm
from webapp.accounts.models import ApiToken


class SignIn(LoginView):
    """By name and password."""

    template_name = "accounts/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True


@never_cache
@require_safe
def sign_in_once(request: HttpRequest, token: str) -> HttpResponse:
    """The link that `make demo` prints."""
    user = services.use_one_time_login(token=token)
    if user is None:
        messages.error(request, "This sign-in link was used already or has run out. Ask for a new one, or sign in.")
        return redirect("accounts:sign_in")
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("replicators:fleet")


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Ends the session."""
    logout(request)
    messages.info(request, "You are signed out.")
    return redirect("accounts:sign_in")


@never_cache
@login_required
def tokens(request: HttpRequest) -> HttpResponse:
    """List and create; the plain token is in the answer to the creation and nowhere else."""
    user = cast("User", request.user)
    form = TokenForm(request.POST or None)
    plain = ""
    if request.method == "POST" and form.is_valid():
        plain = services.create_token(user=user, name=form.cleaned_data["name"])
        form = TokenForm()
    found = ApiToken.objects.filter(user=user)
    context = {"form": form, "plain": plain, "tokens": found, "section": "api"}
    return render(request, "accounts/tokens.html", context)


@login_required
@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Only one's own tokens."""
    token = get_object_or_404(ApiToken, pk=pk, user=cast("User", request.user))
    services.revoke_token(token=token)
    messages.success(request, f"The token {token.name} is revoked and no longer works.")
    return redirect("accounts:tokens")
