"""What mixed callers send: many header sets, all api-versions, and now and then If-None-Match."""

from forewarn.wire.versions import API_VERSIONS

HEADER_SETS = 1_000
_AGENTS = ("python-requests/2.31.0", "curl/7.88.1", "Go-http-client/1.1", "azure-agent/2.9.1.1", "WALinuxAgent/2.11")
_ACCEPTS = ("*/*", "application/json", "application/json, text/plain, */*", "text/html, application/json;q=0.9")
_CASES = (str.title, str.lower, str.upper)


def header_set(number: int) -> str:
    """Return the header lines of one of the 1,000 kinds of client; no two of them are alike."""
    case = _CASES[number % len(_CASES)]
    fields = [
        (case("Host"), "169.254.169.254"),
        (case("User-Agent"), f"{_AGENTS[number % len(_AGENTS)]} build/{number}"),
        (case("Accept"), _ACCEPTS[number % len(_ACCEPTS)]),
        (case("Metadata"), "true" if number % 2 else "True"),
        *([(case("Accept-Encoding"), "gzip, deflate")] if number % 3 else []),
        *([(case("X-Request-Id"), f"{number:032x}")] if number % 4 == 0 else []),
        *([(case("Connection"), "keep-alive")] if number % 5 == 0 else []),
    ]
    turn = number % len(fields)
    return "".join(f"{name}: {value}\r\n" for name, value in fields[turn:] + fields[:turn])


def request(caller: int, etag: str = "", *, closing: bool = False) -> bytes:
    """Return what a caller sends: always the same header set and version, with If-None-Match where it has an ETag."""
    version = API_VERSIONS[caller % len(API_VERSIONS)].name
    fields = header_set(caller % HEADER_SETS)
    if closing:
        fields = "".join(
            line for line in fields.splitlines(keepends=True) if not line.lower().startswith("connection:")
        )
        fields += "Connection: close\r\n"
    if etag:
        fields += f"If-None-Match: {etag}\r\n"
    return f"GET /metadata/scheduledevents?api-version={version} HTTP/1.1\r\n{fields}\r\n".encode()
