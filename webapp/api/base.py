"""What every part of the REST API shares: the form of errors and pages, and how both are documented."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.http import Http404
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework import exceptions, serializers, status, viewsets
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import APIView, set_rollback

from replicator.errors import (
    ConfigurationError,
    SourceError,
    StagingError,
    StateError,
    StreamError,
    TableError,
    TargetError,
    TidemarkError,
)
from replicator.redaction import redacted

STATUS: tuple[tuple[type[TidemarkError], int], ...] = (
    (ConfigurationError, status.HTTP_400_BAD_REQUEST),
    (TableError, status.HTTP_409_CONFLICT),
    (SourceError, status.HTTP_502_BAD_GATEWAY),
    (TargetError, status.HTTP_502_BAD_GATEWAY),
    (StreamError, status.HTTP_409_CONFLICT),
    (StagingError, status.HTTP_503_SERVICE_UNAVAILABLE),
    (StateError, status.HTTP_503_SERVICE_UNAVAILABLE),
)
REMEDIES: Mapping[int, str] = {
    status.HTTP_400_BAD_REQUEST: "Correct the request; see /api/docs/ for its format.",
    status.HTTP_401_UNAUTHORIZED: "Send the header `Authorization: Bearer <token>`; create a token on the account page.",
    status.HTTP_403_FORBIDDEN: "Sign in, and send the CSRF token with every session request that changes something.",
    status.HTTP_404_NOT_FOUND: "List the objects one level up.",
    status.HTTP_405_METHOD_NOT_ALLOWED: "See /api/docs/ for the methods of every address.",
}


class ErrorSerializer(serializers.Serializer):
    """Every error has this form."""

    code = serializers.CharField(help_text="Stable, for programs")
    message = serializers.CharField(help_text="What happened")
    remedy = serializers.CharField(help_text="What to do; may be SQL to run")
    fields = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="By field, code `invalid`",
    )  # type: ignore[assignment]


def error_response(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """DRF's exception handler; None for what is a bug (a 500 without details)."""
    del context
    if isinstance(error, TidemarkError):
        code = next((number for kind, number in STATUS if isinstance(error, kind)), 500)
        set_rollback()
        return _answer(code, error.code, error.message, error.remedy)
    if isinstance(error, Http404 | ObjectDoesNotExist):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if not isinstance(error, exceptions.APIException):
        return None
    set_rollback()
    if isinstance(error, exceptions.ValidationError):
        fields = _flat(error.detail)
        message = "; ".join(f"{name}: {' '.join(texts)}" for name, texts in fields.items())
        return _answer(error.status_code, "invalid", message, REMEDIES[400], fields=fields)
    remedy = getattr(error, "remedy", "") or REMEDIES.get(error.status_code, "Try again.")
    response = _answer(error.status_code, str(error.default_code), str(error.detail), remedy)
    if header := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = header
    return response


def _answer(number: int, code: str, message: str, remedy: str, **more: Any) -> Response:
    return Response({"code": code, "message": redacted(message), "remedy": remedy, **more}, status=number)


def _flat(detail: Any, prefix: str = "") -> dict[str, list[str]]:
    """`{"selection": [{"database": [...]}]}` → `{"selection.0.database": [...]}`."""
    if isinstance(detail, Mapping):
        items: Iterable[tuple[Any, Any]] = detail.items()
    elif isinstance(detail, list) and detail and isinstance(detail[0], Mapping | list):
        items = enumerate(detail)
    else:
        return {prefix or "request": [str(text) for text in (detail if isinstance(detail, list) else [detail])]}
    found: dict[str, list[str]] = {}
    for name, below in items:
        if below:
            found |= _flat(below, ".".join(part for part in (prefix, _name(name)) if part))
    return found


def _name(name: Any) -> str:
    return "" if name == api_settings.NON_FIELD_ERRORS_KEY else str(name)


class Pages(LimitOffsetPagination):
    """`?limit=&offset=` → {count, next, previous, results}."""

    default_limit = 100
    max_limit = 1000


class ApiSchema(AutoSchema):
    """Adds the errors that every operation may give."""

    def _get_response_bodies(self, direction: str = "response") -> dict[str, Any]:
        responses: dict[str, Any] = super()._get_response_bodies(direction)
        codes = ["400", "401"] + (["404"] if "{" in self.path else [])
        for code in codes:
            if code not in responses:
                responses[code] = self._get_response_for_code(ErrorSerializer, code, ["application/json"])
        return responses


class ApiViewSet(viewsets.GenericViewSet):
    """Base of every resource."""

    schema = ApiSchema()
    pagination_class = Pages
    lookup_value_regex = r"\d+"
    filter_backends: tuple[type, ...] = ()

    def get_exception_handler(self) -> Any:
        """Errors as {code, message, remedy}."""
        return error_response

    def read(self, kind: type[serializers.Serializer], request: Request) -> dict[str, Any]:
        """The validated request body."""
        body = kind(data=request.data)
        body.is_valid(raise_exception=True)
        return dict(body.validated_data)

    def page(self, items: Any, kind: type[serializers.Serializer]) -> Response:
        """One page of a list."""
        found = self.paginate_queryset(items)
        return self.get_paginated_response(kind(found, many=True).data)


class NothingHere(APIView):
    """Unknown addresses below /api/v1/ get an error in the API's own form."""

    schema = None
    authentication_classes = ()
    permission_classes = ()

    def get_exception_handler(self) -> Any:
        """Errors as {code, message, remedy}."""
        return error_response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Whatever the method."""
        del request, args, kwargs
        raise exceptions.NotFound


class BearerScheme(OpenApiAuthenticationExtension):
    """How the documentation describes the token."""

    target_class = "webapp.accounts.authentication.ApiTokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """OpenAPI 3."""
        del auto_schema
        return {"type": "http", "scheme": "bearer"}
