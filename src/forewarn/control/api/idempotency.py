"""``Idempotency-Key``: a write that is sent again under its key happens once, and gets the same answer.

The key becomes the command's id, by which the journal knows it for as long as history is kept. An operator's UUID is
taken as it is; whatever else is sent becomes one together with the name of who sent it, so that nobody can ask for
another's answers.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import Annotated
from uuid import UUID, uuid4, uuid5

from litestar.params import HeaderParameter

from forewarn.control.access import Bearer
from forewarn.control.api.problems import Misshapen
from forewarn.control.bodies import Misfit
from forewarn.core.errors import Refused
from forewarn.core.outsiders import Role

_NAMESPACE = UUID("c1b1cf2c-60a2-5c54-9a3f-9b2f2f1d0f5e")
_REMEMBERED = 10_000

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        max_length=200,
        description="Send the same key with every repetition: it then happens once.",
    ),
]


class Keys:
    """Remembers what keys were lately used for, so that one is not used for two things."""

    def __init__(self) -> None:
        self._used: OrderedDict[str, bytes] = OrderedDict()

    def command_id(self, bearer: Bearer, key: str | None, request: bytes) -> str:
        """Return the id of the command that a request is; ``request`` is all that makes it this one."""
        if key is None:
            return str(uuid4())
        id_ = _id(bearer, key)
        print_ = sha256(request).digest()
        if self._used.setdefault(id_, print_) != print_:
            raise Refused("this Idempotency-Key was used for another request; take a new one for each")
        self._used.move_to_end(id_)
        while len(self._used) > _REMEMBERED:
            self._used.popitem(last=False)
        return id_


def _id(bearer: Bearer, key: str) -> str:
    if not key.strip() or not key.isprintable():
        raise Misshapen(Misfit("header.Idempotency-Key", "is empty or not printable; send a UUID"))
    if bearer.role is Role.OPERATOR:
        try:
            return str(UUID(key))
        except ValueError:
            pass
    return str(uuid5(_NAMESPACE, f"{bearer.caller.kind}/{bearer.caller.name}/{key}"))
