"""Error responses to VMs, by name: status, reason and body. ``metadata/service.py`` decides the order of checks."""

import msgspec

from forewarn.wire.facts import show_ids

REASONS = {
    200: "OK",
    304: "Not Modified",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    410: "Gone",
    413: "Content Too Large",
    414: "URI Too Long",
    417: "Expectation Failed",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class ErrorResponse(msgspec.Struct, frozen=True):
    """One refusal; its body is JSON."""

    status: int
    body: bytes

    @property
    def reason(self) -> str:
        return REASONS[self.status]


def _error_response(status: int, error: str) -> ErrorResponse:
    # Azure: its bodies have these blanks inside the braces.
    return ErrorResponse(status, b'{ "error": ' + msgspec.json.encode(error) + b" }")


# Azure: the colon, blank and full stop stand like this in recorded answers.
METADATA_HEADER_MISSING = _error_response(400, "Bad request: . Required metadata header not specified")
FORWARDED = _error_response(400, "Bad request. A request with an X-Forwarded-For header is not answered")
DUPLICATE_PARAMETER = _error_response(400, "Bad request. A query parameter was given more than once")
LEAF_AS_JSON = _error_response(400, "Bad request. A single value is given as text only; add format=text")
FORMAT_UNKNOWN = _error_response(400, "Bad request. The format is json or text")
HOST_NOT_ALLOWED = _error_response(
    403,
    "Forbidden. The request names the service by a host that is not in allowed_hosts; use its address,"
    " or have the operator add the name",
)
FORBIDDEN = _error_response(403, "Forbidden. The calling address belongs to no VM of the fleet")
DEALLOCATED = _error_response(
    403,
    "Forbidden. The VM of the calling address is deallocated; the operator starts it again with 'forewarn vm start'",
)
NOT_FOUND = _error_response(404, "Not found. The requested element does not exist")
METHOD_NOT_ALLOWED = _error_response(405, "Method not allowed")
GONE = _error_response(410, "Gone. The service is being updated; try again within 70 seconds")
TOO_MANY_REQUESTS = _error_response(429, "Too many requests. Try again in a second")
INTERNAL_ERROR = _error_response(500, "Internal server error. Try again")
UNAVAILABLE = _error_response(503, "Service unavailable. Try again")

# HTTP itself, before anything is known of the request's meaning.
MALFORMED = _error_response(400, "Bad request. This is not HTTP/1.1 as RFC 9112 has it")
TIMEOUT = _error_response(408, "Request timeout. The request did not arrive in time")
BODY_TOO_LARGE = _error_response(413, "Content too large. A body may have 64 KiB")
URI_TOO_LONG = _error_response(414, "URI too long")
EXPECTATION_FAILED = _error_response(417, "Expectation failed. The only expectation met is 100-continue")
HEADERS_TOO_LARGE = _error_response(431, "Request header fields too large")
NOT_IMPLEMENTED = _error_response(501, "Not implemented. The only transfer coding is chunked")
HTTP_VERSION_UNSUPPORTED = _error_response(505, "HTTP version not supported. Use HTTP/1.1")


def bad_request(why: str) -> ErrorResponse:
    """Refuse what was sent, and say why: a body that cannot be read, an event that is not there."""
    return _error_response(400, f"Bad request. {show_ids(why)}")


def version_invalid(newest: tuple[str, ...]) -> ErrorResponse:
    """Refuse an api-version that is missing or unknown, and name the newest of the route."""
    # Azure: this body, unlike all others, has no blanks.
    error = (
        "Bad request. api-version is invalid or was not specified in the request."
        " For more information refer to aka.ms/azureimds"
    )
    return ErrorResponse(400, msgspec.json.encode({"error": error, "newest-versions": newest}))


class _ErrorBody(msgspec.Struct):
    error: str


def read_error(body: bytes) -> str:
    """Return the text of a refusal: its ``error``, or else the body."""
    try:
        return msgspec.json.decode(body, type=_ErrorBody).error
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return body.decode(errors="replace").strip()
