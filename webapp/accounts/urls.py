"""Signing in and out, API tokens."""

from __future__ import annotations

from django.urls import path

from webapp.accounts import views

app_name = "accounts"
urlpatterns = [
    path("login/", views.SignIn.as_view(), name="sign_in"),
    path("login/once/<str:token>/", views.sign_in_once, name="sign_in_once"),
    path("logout/", views.sign_out, name="sign_out"),
    path("account/tokens/", views.tokens, name="tokens"),
    path("account/tokens/<int:pk>/revoke/", views.revoke, name="revoke_token"),
    path("account/password/", views.password, name="password"),
    path("users/", views.users, name="users"),
    path("audit/", views.audit_page, name="audit"),
]
