"""JSON bodies from untrusted callers."""

from typing import TypeVar

import msgspec

from forewarn.core.errors import BadInput

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_Record = TypeVar("_Record")


class BadBody(BadInput):
    """The body is not what the protocol says."""


def read_body(decoder: "msgspec.json.Decoder[_Record]", body: bytes, name: str) -> _Record:
    """Decode ``body``, or raise BadBody that calls it ``name`` and says what is wrong with it."""
    try:
        # Windows clients write a byte order mark; JSON itself has none.
        return decoder.decode(body.removeprefix(_BYTE_ORDER_MARK))
    except (ValueError, msgspec.DecodeError) as error:
        raise BadBody(f"the {name} cannot be read: {error}") from None
    except RecursionError:
        raise BadBody(f"the {name} cannot be read: it is nested too deeply") from None
