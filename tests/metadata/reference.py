"""HTTP/1.1 read slowly and plainly: what a stream of bytes asks for, one request after another.

Written from the RFCs and the protocol's page, without a look at the service: no regular expression, no cleverness,
everything at hand at once. The service must come to the same verdicts however the bytes reach it.
"""

import string
from itertools import count
from urllib.parse import unquote

TOKEN = set((string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~").encode())
UNRESERVED = set((string.ascii_letters + string.digits + "-._~!$&'()*+,;=").encode())
DIGITS = set(b"0123456789")
HEX = set(b"0123456789abcdefABCDEF")
CRLF = b"\r\n"

DOCUMENT_VERSIONS = {
    *("2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01"),
}


class Refused(Exception):
    """The stream is not HTTP from here on."""


class Incomplete(Exception):
    """The stream ends within a request."""


def statuses(stream: bytes) -> tuple[list[int], bool]:
    """Return the statuses that a VM of an enrolled group without events is answered, and whether it ends in close."""
    answers: list[int] = []
    rest = stream
    while rest:
        try:
            status, is_last, rest = read_one(rest)
        except Refused as refused:
            return [*answers, int(str(refused))], True
        except Incomplete:
            return answers, False
        answers.append(status)
        if is_last:
            return answers, True
    return answers, False


def read_one(stream: bytes) -> tuple[int, bool, bytes]:
    """Return the status of the first request, whether it is the last, and what follows it."""
    while stream.startswith(CRLF):
        stream = stream[2:]
    if not stream or stream == b"\r":
        raise Incomplete
    lines, rest = read_lines(stream)
    method, target, version = read_request_line(lines[0])
    fields = [read_field(line) for line in lines[1:]]
    if len(fields) > 100:
        raise Refused(431)
    if version[0] != "1":
        raise Refused(505)
    is_modern = version[1] != "0"
    hosts = values(fields, "host")
    if len(hosts) > 1 or (is_modern and not hosts) or not all(is_host(host) for host in hosts):
        raise Refused(400)
    lengths, codings = values(fields, "content-length"), values(fields, "transfer-encoding")
    if len(lengths) > 1 or (codings and (lengths or not is_modern)):
        raise Refused(400)
    if lengths and (not lengths[0] or not set(lengths[0]) <= DIGITS):
        raise Refused(400)
    names = [name for coding in codings for name in elements(coding)]
    if codings and (not names or names.count(b"chunked") > 1):
        raise Refused(400)
    if codings and names != [b"chunked"]:
        raise Refused(501)
    if lengths and int(lengths[0]) > 65536:
        raise Refused(413)
    if is_modern and (expected := values(fields, "expect")) and b", ".join(expected).lower() != b"100-continue":
        raise Refused(417)
    path, query = read_target(method, target)
    if codings:
        body, rest = read_chunks(rest)
    else:
        size = int(lengths[0]) if lengths else 0
        if len(rest) < size:
            raise Incomplete
        body, rest = rest[:size], rest[size:]
    tokens = [name for value in values(fields, "connection") for name in elements(value)]
    stays = b"close" not in tokens and (is_modern or b"keep-alive" in tokens)
    return judge(method, path, query, fields, body), not stays, rest


def read_lines(stream: bytes) -> tuple[list[bytes], bytes]:
    """Split the head into lines, watching the limits as the bytes go by."""
    lines: list[bytes] = []
    start = 0
    if stream[0] not in TOKEN:
        raise Refused(400)
    for position, byte in enumerate(stream):
        if byte == 0x0A:
            if position == start or stream[position - 1] != 0x0D:
                raise Refused(400)
            line = stream[start : position - 1]
            if not lines:
                read_request_line(line)
            start = position + 1
            if not line:
                return lines, stream[start:]
            lines.append(line)
        if not lines and position + 1 >= 8192:
            raise Refused(414)
        if position + 1 >= 16384:
            raise Refused(431)
    raise Incomplete


def read_request_line(line: bytes) -> tuple[bytes, bytes, tuple[str, str]]:
    parts = line.split(b" ")
    if len(parts) != 3:
        raise Refused(400)
    method, target, version = parts
    if not method or not set(method) <= TOKEN or not target or not all(0x21 <= byte <= 0x7E for byte in target):
        raise Refused(400)
    if len(version) != 8 or version[:5] != b"HTTP/" or version[6:7] != b"." or not {version[5], version[7]} <= DIGITS:
        raise Refused(400)
    return method, target, (chr(version[5]), chr(version[7]))


def read_field(line: bytes) -> tuple[str, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or not set(name) <= TOKEN:
        raise Refused(400)
    if any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value):
        raise Refused(400)
    return name.decode().lower(), value.strip(b" \t")


def values(fields: list[tuple[str, bytes]], name: str) -> list[bytes]:
    return [value for key, value in fields if key == name]


def elements(value: bytes) -> list[bytes]:
    return [part.strip(b" \t") for part in value.lower().split(b",") if part.strip(b" \t")]


def is_host(value: bytes) -> bool:
    if value.startswith(b"["):
        address, bracket, port = value[1:].partition(b"]")
        if not bracket or not address or not set(address) <= HEX | set(b":."):
            return False
    else:
        name, colon, port = value.partition(b":")
        if not set(name) <= UNRESERVED | set(b"%"):
            return False
        port = colon + port
    return port == b"" or (port[:1] == b":" and set(port[1:]) <= DIGITS)


def read_target(method: bytes, target: bytes) -> tuple[str, str]:
    if method == b"CONNECT" or (method == b"OPTIONS" and target == b"*"):
        return "", ""
    if target[:7].lower() == b"http://":
        authority = target[7:]
        ends = [authority.index(mark) for mark in (b"/", b"?") if mark in authority]
        end = min(ends, default=len(authority))
        if not authority[:end] or authority[:1] == b":" or not is_host(authority[:end]):
            raise Refused(400)
        target = authority[end:]
    elif not target.startswith(b"/"):
        raise Refused(400)
    path, _, query = target.partition(b"?")
    for text, allowed in ((path, b":@/"), (query, b":@/?")):
        position = 0
        while position < len(text):
            if text[position] == ord("%"):
                if len(text[position : position + 3]) != 3 or not set(text[position + 1 : position + 3]) <= HEX:
                    raise Refused(400)
                position += 2
            elif text[position] not in UNRESERVED | set(allowed):
                raise Refused(400)
            position += 1
    return unquote(path.decode()), query.decode()


def read_chunks(rest: bytes) -> tuple[bytes, bytes]:
    body = b""
    for number in count(1):
        line, rest = read_line(rest, 1024)
        size_text, semicolon, extension = line.partition(b";")
        if semicolon:
            size_text = size_text.rstrip(b" \t")
        if any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in extension):
            raise Refused(400)
        if not 1 <= len(size_text) <= 8 or not set(size_text) <= HEX:
            raise Refused(400)
        size = int(size_text, 16)
        if len(body) + size > 65536 or number > 1024:
            raise Refused(413)
        if size == 0:
            break
        if len(rest) < size + 2:
            raise Incomplete
        if rest[size : size + 2] != CRLF:
            raise Refused(400)
        body += rest[:size]
        rest = rest[size + 2 :]
    if rest.startswith(CRLF):
        return body, rest[2:]
    start = 0
    lines: list[bytes] = []
    for position, byte in enumerate(rest):
        if byte == 0x0A:
            if position == 0 or rest[position - 1] != 0x0D:
                raise Refused(400)
            if position - 1 == start:
                for line in lines:
                    read_field(line)
                return body, rest[position + 1 :]
            lines.append(rest[start : position - 1])
            start = position + 1
        if position + 1 >= 16384:
            raise Refused(431)
    raise Incomplete


def read_line(rest: bytes, limit: int) -> tuple[bytes, bytes]:
    for position, byte in enumerate(rest[:limit]):
        if byte == 0x0A:
            if position == 0 or rest[position - 1] != 0x0D:
                raise Refused(400)
            return rest[: position - 1], rest[position + 1 :]
    if len(rest) >= limit:
        raise Refused(400)
    raise Incomplete


def judge(method: bytes, path: str, query: str, fields: list[tuple[str, bytes]], body: bytes) -> int:
    """Make the checks of the protocol's page, in its order, for a caller that is known."""
    parameters = [pair.partition("=") for pair in query.replace("+", " ").split("&") if pair]
    names = [unquote(name).lower() for name, _, _ in parameters]
    api_version = next(
        (unquote(value) for name, _, value in parameters if unquote(name).lower() == "api-version"), ""
    )
    is_waived = method == b"POST" and api_version == "2017-03-01"
    if b", ".join(values(fields, "metadata")).lower() != b"true" and not is_waived:
        return 400
    if values(fields, "x-forwarded-for") or len(names) != len(set(names)):
        return 400
    place = path.lower().removesuffix("/")
    if place == "/metadata/versions":
        return 200 if method in (b"GET", b"HEAD") else 405
    if api_version not in DOCUMENT_VERSIONS:
        return 400
    if place != "/metadata/scheduledevents":
        return 404
    if method == b"POST":
        return 200 if body == b'{"StartRequests":[]}' else 400
    if method not in (b"GET", b"HEAD"):
        return 405
    tags = [tag for value in values(fields, "if-none-match") for tag in elements(value)]
    return 304 if any(tag in (b"*", b'"web-1"', b'w/"web-1"', b"web-1") for tag in tags) else 200
