"""Tokens: list, create, rotate and revoke."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from litestar import Router, delete
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec.structs import asdict, replace

from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.api.idempotency import IdempotencyKey, IdempotentWrite
from forewarn.control.api.paging import Cursor, Limit, make_page, names_after, read_cursor
from forewarn.control.api.routing import reads, replay_empty, writes
from forewarn.control.bodies import LONGEST_OVERLAP, NewToken, ResultPage, TokenBody, TokenView
from forewarn.control.server.authentication import mint
from forewarn.core.access import Action, Principal
from forewarn.core.commands import CreateToken, RevokeToken
from forewarn.core.errors import Refused, unknown
from forewarn.core.facts import Entry, TokenCreated
from forewarn.core.fleet import Fleet
from forewarn.core.model import Token

_Overlap = Annotated[
    int, QueryParameter(ge=0, le=LONGEST_OVERLAP, description="Seconds for which the old secret stays valid.")
]


@reads("/", Action.KEEP_TOKENS, summary="List tokens")
async def list_tokens(context: ContextDependency, limit: Limit = 100, cursor: Cursor = None) -> ResultPage[TokenView]:
    """List the tokens that are not revoked, without their secrets."""
    tokens = context.fleet.tokens
    names = names_after(tokens, read_cursor(cursor))
    return make_page(((id_, tokens.get(id_)) for id_ in names), limit, lambda token: _view(context, token))


async def _refuse_again(context: ApiContext, given: Mapping[str, Any], entry: Entry) -> NewToken:
    """Refuse to return a secret twice: only its hash is stored."""
    token = next(fact.token for fact in entry.facts if isinstance(fact, TokenCreated))
    raise Refused(
        f"token {token.name!r} ({token.id}) was created with this Idempotency-Key before, and its secret is shown"
        " once; rotate the token to get another"
    )


@writes("/", Action.KEEP_TOKENS, summary="Create a token", replay=_refuse_again)
async def create_token(
    context: ContextDependency, principal: PrincipalDependency, data: JSONBody[TokenBody], key: IdempotencyKey
) -> NewToken:
    """Create a token. Its secret is returned in this response only."""
    lasts = timedelta(seconds=data.lasts) if data.lasts else None
    token, shown = mint(data.name, data.role, data.groups, context.now(), lasts)
    return await _create(context, principal, key, token, shown)


@writes("/{id:str}/rotate", Action.KEEP_TOKENS, summary="Rotate a token", replay=_refuse_again)
async def rotate_token(
    context: ContextDependency,
    principal: PrincipalDependency,
    id: FromPath[str],
    key: IdempotencyKey,
    overlap: _Overlap = 0,
) -> NewToken:
    """Replace the secret of a token; the old one becomes invalid. Id, name, role, groups and duration stay.

    With `overlap`, the old secret stays valid for so many seconds; a secret before that becomes invalid at once.
    """
    old = _token(context.fleet, id)
    lasts = old.expires_at - old.created_at if old.expires_at else None
    token, shown = mint(old.name, old.role, old.groups, context.now(), lasts, old.id)
    if overlap:
        until = context.now() + timedelta(seconds=overlap)
        token = replace(token, previous_hash=old.hash, previous_until=min(until, old.expires_at or until))
    return await _create(context, principal, key, token, shown, replaces=old.id)


@writes("/{id:str}", Action.KEEP_TOKENS, summary="Revoke a token", method=delete, replay=replay_empty)
async def revoke_token(context: ContextDependency, id: FromPath[str], key: IdempotencyKey) -> None:
    """Revoke a token by its id or name; its open change streams are closed."""
    token = _token(context.fleet, id)
    await context.operations.record(RevokeToken(id=key.id, by=key.by, token=token.id), key)


async def _create(
    context: ApiContext, principal: Principal, key: IdempotentWrite, token: Token, shown: str, replaces: str = ""
) -> NewToken:
    command = CreateToken(id=key.id, by=principal.caller, token=token, replaces=replaces)
    await context.operations.record(command, key)
    return NewToken(**asdict(_view(context, token)), token=shown)


def _token(fleet: Fleet, given: str) -> Token:
    names = {token.name: token for token in fleet.tokens.values()}
    token = fleet.tokens.get(given) or names.get(given)
    if token is None:
        raise unknown("token", given, [*fleet.tokens, *names])
    return token


def _view(context: ApiContext, token: Token) -> TokenView:
    return TokenView(
        id=token.id,
        name=token.name,
        role=token.role,
        groups=token.groups,
        created_at=token.created_at,
        expires_at=token.expires_at,
        previous_until=token.previous_until
        if token.previous_until and token.previous_until > context.now()
        else None,
        is_expired=token.expires_at is not None and token.expires_at <= context.now(),
        missing_groups=tuple(name for name in token.groups if name not in context.fleet.groups),
    )


tokens = Router("/tokens", tags=["Tokens"], route_handlers=[list_tokens, create_token, rotate_token, revoke_token])
