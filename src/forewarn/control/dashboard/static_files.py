"""Serves scripts and styles from the package; each address has a digest of the content, so that browsers keep it."""

import hashlib
from functools import cache

from litestar import Response, Router, get
from litestar.params import FromPath

from forewarn.control.api.routing import PUBLIC
from forewarn.control.dashboard.rendering import STATIC
from forewarn.core.errors import Unknown

_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "public, max-age=31536000, immutable"}


@cache
def _content() -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in STATIC.iterdir() if each.name.rpartition(".")[2] in _TYPES}


@cache
def digest() -> str:
    """Return a digest of all files: scripts import each other by relative addresses, so all change together."""
    hashed = hashlib.sha256()
    for name, content in sorted(_content().items()):
        hashed.update(name.encode() + b"\0" + content)
    return hashed.hexdigest()[:16]


@get("/static/{version:str}/{name:str}", opt={PUBLIC: True}, include_in_schema=False)
async def static_file(version: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Return one file; files hold no secret, so that no session is needed. Any version is answered."""
    del version
    content = _content().get(name)
    if content is None:
        raise Unknown(f"there is no file {name!r}")
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)


static_files = Router("/", route_handlers=[static_file])
