"""Serves the OpenAPI document, and a reference page generated from it."""

import asyncio
from typing import Any

import msgspec
from litestar import MediaType, Request, Response, Router

from forewarn.control.api.openapi import describe
from forewarn.control.api.reference_page import render
from forewarn.control.api.routing import reads

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_PAGE_HEADERS = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}


@reads("/openapi.json", None, summary="The OpenAPI document", include_in_schema=False)
async def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the OpenAPI document; needs no token."""
    # Generated once, in a thread, so that VMs do not wait.
    document = await asyncio.to_thread(describe, request.app)
    return Response(msgspec.json.encode(document), media_type=MediaType.JSON)


@reads("/api", None, summary="The reference", include_in_schema=False)
async def reference(request: Request[Any, Any, Any]) -> Response[str]:
    """Return the OpenAPI document as an HTML page; needs no token."""
    page = await asyncio.to_thread(lambda: render(describe(request.app)))
    return Response(page, media_type=MediaType.HTML, headers=_PAGE_HEADERS)


openapi_routes = Router("/", route_handlers=[openapi, reference])
