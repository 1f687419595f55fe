"""The account behind a request, and its API tokens."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts import serializers, services
from webapp.accounts.models import ApiToken, AuditEntry
from webapp.accounts.roles import role_of
from webapp.accounts.selectors import AuditFilters, audit_log
from webapp.api.base import ApiViewSet
from webapp.web.responses import user_of


@extend_schema(tags=["account"])
class MeViewSet(ApiViewSet):
    """Who asks."""

    pagination_class = None
    serializer_class = serializers.MeSerializer

    @extend_schema(operation_id="me")
    def retrieve(self, request: Request) -> Response:
        """The user of this token or session."""
        me = {"username": request.user.get_username(), "role": role_of(request.user, request.auth)}
        return Response(serializers.MeSerializer(me).data)


@extend_schema(tags=["account"])
class TokenViewSet(ApiViewSet):
    """A user sees and revokes their own tokens only."""

    queryset = ApiToken.objects.none()
    serializer_class = serializers.TokenSerializer

    def list(self, request: Request) -> Response:
        """Tokens, without their values."""
        return self.page(ApiToken.objects.filter(user=user_of(request)), serializers.TokenSerializer)

    @extend_schema(request=serializers.TokenCreateSerializer, responses={201: serializers.NewTokenSerializer})
    def create(self, request: Request) -> Response:
        """Make a token; the answer is the only place where it ever appears."""
        body = self.read(serializers.TokenCreateSerializer, request)
        plain = services.create_token(**body, user=user_of(request), most=role_of(request.user, request.auth))
        made = ApiToken.objects.get(digest=services.digest(plain))
        answer = {**serializers.TokenSerializer(made).data, "token": plain}
        return Response(answer, status=status.HTTP_201_CREATED)

    def destroy(self, request: Request, pk: str) -> Response:
        """Revoke a token; it stops working at once."""
        services.revoke_token(token=get_object_or_404(ApiToken, user=user_of(request), pk=pk))
        return Response(status=status.HTTP_204_NO_CONTENT)


@extend_schema(tags=["account"])
class UserViewSet(ApiViewSet):
    """Accounts; for admins."""

    queryset = get_user_model().objects.none()
    serializer_class = serializers.UserSerializer

    def _answer(self, pk: int, code: int = status.HTTP_200_OK) -> Response:
        return Response(serializers.UserSerializer(get_user_model().objects.get(pk=pk)).data, status=code)

    def list(self, request: Request) -> Response:
        """By name."""
        del request
        return self.page(get_user_model().objects.order_by("username"), serializers.UserSerializer)

    @extend_schema(request=serializers.UserCreateSerializer, responses={201: serializers.UserSerializer})
    def create(self, request: Request) -> Response:
        """Make an account."""
        body = self.read(serializers.UserCreateSerializer, request)
        made = services.create_user(
            name=body["username"], password=body["password"], role=body["role"], by=user_of(request)
        )
        return self._answer(made.pk, status.HTTP_201_CREATED)

    @extend_schema(request=serializers.UserUpdateSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change role or password, or deactivate the user; sessions follow at once.  Tokens outlive a new password."""
        user = get_object_or_404(get_user_model(), pk=pk)
        services.update_user(user=user, **self.read(serializers.UserUpdateSerializer, request), by=user_of(request))
        return self._answer(user.pk)


@extend_schema(tags=["account"])
class AuditViewSet(ApiViewSet):
    """Who did what; for admins."""

    queryset = AuditEntry.objects.none()
    serializer_class = serializers.AuditSerializer

    @extend_schema(
        parameters=[
            OpenApiParameter("who", str, description="A user's name"),
            OpenApiParameter("kind", str),
            OpenApiParameter("about", str, description="Part of the name of the object"),
        ]
    )
    def list(self, request: Request) -> Response:
        """Newest first."""
        return self.page(audit_log(AuditFilters.of(request.query_params)), serializers.AuditSerializer)
