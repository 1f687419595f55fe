"""What every part of the REST API shares: the form of errors and pages, and how both are documented."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework import exceptions, serializers, status, viewsets
from rest_framework.metadata import SimpleMetadata
from rest_framework.pagination import BasePagination, LimitOffsetPagination
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
    status.HTTP_401_UNAUTHORIZED: (
        "Send the header `Authorization: Bearer <token>`; create a token on the account page."
    ),
    status.HTTP_403_FORBIDDEN: "Sign in, and send the CSRF token with every session request that changes something.",
    status.HTTP_404_NOT_FOUND: "List the objects one level up.",
    status.HTTP_405_METHOD_NOT_ALLOWED: "See /api/docs/ for the methods of every address.",
}


T = TypeVar("T")


class ErrorSerializer(serializers.Serializer[dict[str, Any]]):
    """Every error has this form."""

    code = serializers.CharField(help_text="Stable, for programs")
    message = serializers.CharField(help_text="What happened")
    remedy = serializers.CharField(help_text="What to do; may be SQL to run")
    fields = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="By field, code `invalid`",
    )  # type: ignore[assignment]  # declared fields are not attributes of the class


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


def listed(
    kind: type[serializers.Serializer[T]], items: Iterable[T], context: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Each of `items` in the form of `kind`."""
    # The stubs know a serializer of one object only, not that of many.
    return list(kind(items, many=True, context=context or {}).data)  # type: ignore[arg-type]


class Pages(LimitOffsetPagination):
    """`?limit=&offset=` → {count, next, previous, results}."""

    default_limit = 100
    max_limit = 1000

    def window(self, request: Request) -> tuple[int, int]:
        """Limit and offset, where the source cuts the list itself; `count` is to be set."""
        limit, offset = self.get_limit(request) or self.default_limit, self.get_offset(request)
        self.request, self.limit, self.offset = request, limit, offset
        return limit, offset


class ApiSchema(AutoSchema):
    """Adds the errors that every operation may give."""

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        responses: dict[str, Any] = super()._get_response_bodies(direction)
        codes = ["400", "401"] + (["404"] if "{" in self.path else [])
        for code in codes:
            if code not in responses:
                # drf_spectacular has no hints for it
                responses[code] = self._get_response_for_code(ErrorSerializer, code, ["application/json"])  # type: ignore[no-untyped-call]
        return responses


class Metadata(SimpleMetadata):
    """Answers OPTIONS with what an address is; what each operation takes is documented, and differs from what it
    gives.
    """

    def determine_actions(self, request: Request, view: APIView) -> dict[str, Any]:
        """None: DRF takes them from `serializer_class` and asks for an object by its `pk`."""
        del request, view
        return {}


class ApiViewSet(viewsets.GenericViewSet[Any]):
    """Base of every resource, of models or of other things."""

    schema = ApiSchema()
    metadata_class = Metadata
    pagination_class: type[BasePagination] | None = Pages
    lookup_value_regex = r"\d+"
    filter_backends: tuple[type, ...] = ()

    def get_exception_handler(self) -> Any:
        """Errors as {code, message, remedy}."""
        return error_response

    def read(self, kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
        """The validated request body."""
        body = kind(data=request.data)
        body.is_valid(raise_exception=True)
        return dict(body.validated_data)

    def page(self, items: QuerySet[Any, T] | Sequence[T], kind: type[serializers.Serializer[T]]) -> Response:
        """One page of a list."""
        return self.get_paginated_response(listed(kind, self.paginate_queryset(items) or []))


class NothingHere(APIView):
    """Unknown addresses below /api/v1/ get an error in the API's own form."""

    schema = None
    authentication_classes = ()
    permission_classes = ()

    def get_exception_handler(self) -> Any:
        """Errors as {code, message, remedy}."""
        return error_response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """404 for every method."""
        del request, args, kwargs
        raise exceptions.NotFound


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf_spectacular has no hints
    """How the documentation describes the token."""

    target_class = "webapp.accounts.authentication.ApiTokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """OpenAPI 3."""
        del auto_schema
        return {"type": "http", "scheme": "bearer"}
