"""The account behind a request, and its API tokens."""

from __future__ import annotations

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts import serializers, services
from webapp.accounts.models import ApiToken
from webapp.api_base import ApiViewSet


@extend_schema(tags=["account"])
class MeViewSet(ApiViewSet):
    """Who asks."""

    pagination_class = None
    serializer_class = serializers.MeSerializer

    @extend_schema(operation_id="me")
    def retrieve(self, request: Request) -> Response:
        """The user of this token or session."""
        return Response(serializers.MeSerializer(request.user).data)


@extend_schema(tags=["account"])
class TokenViewSet(ApiViewSet):
    """A user sees and revokes their own tokens only."""

    queryset = ApiToken.objects.none()
    serializer_class = serializers.TokenSerializer

    def list(self, request: Request) -> Response:
        """Tokens, without their values."""
        return self.page(ApiToken.objects.filter(user=request.user), serializers.TokenSerializer)

    @extend_schema(request=serializers.TokenCreateSerializer, responses={201: serializers.NewTokenSerializer})
    def create(self, request: Request) -> Response:
        """Make a token; the answer is the only place where it ever appears."""
        body = self.read(serializers.TokenCreateSerializer, request)
        plain = services.create_token(user=request.user, name=body["name"])
        made = ApiToken.objects.get(digest=services.digest(plain))
        answer = {**serializers.TokenSerializer(made).data, "token": plain}
        return Response(answer, status=status.HTTP_201_CREATED)

    def destroy(self, request: Request, pk: str) -> Response:
        """Revoke a token; it stops working at once."""
        services.revoke_token(token=get_object_or_404(ApiToken, user=request.user, pk=pk))
        return Response(status=status.HTTP_204_NO_CONTENT)
