"""The control plane of the HTTP interface (DRF). Messages themselves pass through `net.rest`."""

import difflib
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.models import Token
from broker_app.web import actions
from broker_app.web.acting import by
from broker_app.web.refusals import PROBLEM_REPLIES


def document() -> dict[str, Any]:
    """The OpenAPI document of the control plane, to be joined with that of the data plane."""
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return schema


def summarize(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A hook of drf-spectacular: what a view says of itself is a summary, as in the data plane's document."""
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["summary"] = operation.pop("description").rstrip(".")
    return result


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses fields it does not know, instead of dropping them."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (strange := sorted(set(data) - set(self.fields))):
            raise serializers.ValidationError({name: _unknown(name, list(self.fields)) for name in strange})
        return super().to_internal_value(data)


class TokenSerializer(serializers.ModelSerializer[Token]):
    """A token as its owner sees it: everything but the secret."""

    class Meta:
        model = Token
        fields = ("id", "name", "prefix", "created", "expires")


class NewTokenSerializer(TokenSerializer):
    """A token just made, with its secret."""

    token = serializers.CharField(help_text="the secret; shown this once")

    class Meta(TokenSerializer.Meta):
        fields = (*TokenSerializer.Meta.fields, "token")  # type: ignore[assignment]


class TokenRequest(StrictSerializer):
    """What a new token needs."""

    name = serializers.CharField(max_length=100)
    expires = serializers.DateTimeField(required=False, allow_null=True)


class TokenList(serializers.Serializer[Any]):
    """All tokens of a user."""

    items = TokenSerializer(many=True)


class Tokens(APIView):
    """The caller's tokens."""

    @extend_schema(operation_id="tokens_list", responses={200: TokenList, **PROBLEM_REPLIES})
    def get(self, request: Request) -> Response:
        """Lists the caller's tokens, without their secrets."""
        return Response({"items": TokenSerializer(_tokens_of(request), many=True).data})

    @extend_schema(
        operation_id="tokens_create",
        request=TokenRequest,
        responses={201: NewTokenSerializer, **PROBLEM_REPLIES},
    )
    def post(self, request: Request) -> Response:
        """Makes a token. The reply is the only place where its secret is ever seen."""
        wish = TokenRequest(data=request.data)
        wish.is_valid(raise_exception=True)
        new = actions.create_token(by(request), _user_of(request), **wish.validated_data)
        body = {**TokenSerializer(new.token).data, "token": new.secret}
        return Response(body, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})


class OneToken(APIView):
    """One of the caller's tokens."""

    @extend_schema(operation_id="tokens_revoke", responses={204: None, **PROBLEM_REPLIES})
    def delete(self, request: Request, pk: int) -> Response:
        """Revokes a token."""
        actions.revoke_token(by(request), get_object_or_404(_tokens_of(request), pk=pk))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown field; did you mean {near[0]}?" if near else "unknown field"


def _tokens_of(request: Request) -> QuerySet[Token]:
    return Token.objects.filter(owner=_user_of(request))


def _user_of(request: Request) -> User:
    assert isinstance(request.user, User), "the permission classes let nobody else in"
    return request.user
