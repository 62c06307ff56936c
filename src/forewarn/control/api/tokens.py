"""Tokens: who may come in over TCP."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from litestar import Router, delete
from litestar.params import FromPath, JSONBody
from msgspec.structs import asdict

from forewarn.control.access import Action, Bearer
from forewarn.control.api.idempotency import IdempotencyKey, Write
from forewarn.control.api.paging import Cursor, Limit, after, page, read_cursor
from forewarn.control.api.plane import Asking, Behind, Plane
from forewarn.control.api.routing import reads, say_done, writes
from forewarn.control.bodies import NewToken, Page, TokenBody, TokenView
from forewarn.control.tokens import mint
from forewarn.core.commands import CreateToken, RevokeToken
from forewarn.core.errors import Refused, unknown
from forewarn.core.facts import Entry, TokenCreated
from forewarn.core.fleet import Fleet
from forewarn.core.outsiders import Token

_TAGS = ("Tokens",)


@reads("/", Action.KEEP_TOKENS, summary="List tokens", tags=_TAGS)
async def list_tokens(plane: Behind, limit: Limit = 100, cursor: Cursor = None) -> Page[TokenView]:
    """List the tokens that were not revoked; nobody is told their secrets."""

    def look(fleet: Fleet) -> Page[TokenView]:
        names = after(fleet.tokens, read_cursor(cursor))
        return page(((id_, fleet.tokens.get(id_)) for id_ in names), limit, lambda token: _view(plane, token))

    return await plane.node.look(look)


async def _refuse_again(plane: Plane, given: Mapping[str, Any], entry: Entry) -> NewToken:
    """Refuse to tell a secret twice: only its hash is kept."""
    token = next(fact.token for fact in entry.facts if isinstance(fact, TokenCreated))
    raise Refused(
        f"token {token.name!r} ({token.id}) was created under this Idempotency-Key before, and its secret is shown"
        " once; rotate the token to get another"
    )


@writes("/", Action.KEEP_TOKENS, summary="Create a token", tags=_TAGS, body=TokenBody, replay=_refuse_again)
async def create_token(plane: Behind, bearer: Asking, data: JSONBody[TokenBody], key: IdempotencyKey) -> NewToken:
    """Create a token. What its bearer shows is told in this answer and never again."""
    lasts = timedelta(seconds=data.lasts) if data.lasts else None
    token, shown = mint(data.name, data.role, data.groups, plane.now(), lasts)
    return await _create(plane, bearer, key, token, shown)


@writes("/{id:str}/rotate", Action.KEEP_TOKENS, summary="Rotate a token", tags=_TAGS, replay=_refuse_again)
async def rotate_token(plane: Behind, bearer: Asking, id: FromPath[str], key: IdempotencyKey) -> NewToken:
    """Give a token another secret; the old one opens nothing any more. Id, name, role, groups and duration stay."""
    old = await plane.node.look(lambda fleet: _token(fleet, id))
    lasts = old.expires_at - old.created_at if old.expires_at else None
    token, shown = mint(old.name, old.role, old.groups, plane.now(), lasts, old.id)
    return await _create(plane, bearer, key, token, shown, replaces=old.id)


@writes("/{id:str}", Action.KEEP_TOKENS, summary="Revoke a token", tags=_TAGS, method=delete, replay=say_done)
async def revoke_token(plane: Behind, bearer: Asking, id: FromPath[str], key: IdempotencyKey) -> None:
    """Let a token, named by its id or its name, open nothing any more; whoever listens with it is let go of."""
    token = await plane.node.look(lambda fleet: _token(fleet, id))
    await plane.operations.record(RevokeToken(id=key.id, by=bearer.caller, token=token.id), key.fingerprint)


async def _create(plane: Plane, bearer: Bearer, key: Write, token: Token, shown: str, replaces: str = "") -> NewToken:
    command = CreateToken(id=key.id, by=bearer.caller, token=token, replaces=replaces)
    await plane.operations.record(command, key.fingerprint)
    return NewToken(**asdict(_view(plane, token)), token=shown)


def _token(fleet: Fleet, given: str) -> Token:
    names = {token.name: token for token in fleet.tokens.values()}
    token = fleet.tokens.get(given) or names.get(given)
    if token is None:
        raise unknown("token", given, [*fleet.tokens, *names])
    return token


def _view(plane: Plane, token: Token) -> TokenView:
    return TokenView(
        id=token.id,
        name=token.name,
        role=token.role,
        groups=token.groups,
        created_at=token.created_at,
        expires_at=token.expires_at,
        is_expired=token.expires_at is not None and token.expires_at <= plane.now(),
        missing_groups=tuple(name for name in token.groups if name not in plane.node.fleet.groups),
    )


tokens = Router("/tokens", route_handlers=[list_tokens, create_token, rotate_token, revoke_token])
