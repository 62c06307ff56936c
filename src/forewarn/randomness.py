"""Random bytes and identifiers from one source, which a simulation replaces by a seeded one."""

import os
from base64 import urlsafe_b64encode
from collections.abc import Callable

_source: Callable[[int], bytes] = os.urandom


def use_source(source: Callable[[int], bytes]) -> None:
    """Draw bytes from ``source`` from now on; only a simulation does so, in a process of its own."""
    global _source  # noqa: PLW0603 - there is one, as there is one os.urandom
    _source = source


def secret_bytes(size: int = 32) -> bytes:
    """Return unpredictable bytes."""
    return _source(size)


def secret_text(size: int = 32) -> str:
    """Return such bytes as text that needs no quoting in a URL or a header."""
    return urlsafe_b64encode(_source(size)).rstrip(b"=").decode()


def new_id() -> str:
    """Return a new random UUID (version 4) without its hyphens."""
    number = int.from_bytes(_source(16), "big") & ~(0xF << 76) & ~(0x3 << 62)
    return f"{number | 4 << 76 | 2 << 62:032x}"


def new_uuid() -> str:
    """Return a new random UUID as text."""
    id_ = new_id()
    return f"{id_[:8]}-{id_[8:12]}-{id_[12:16]}-{id_[16:20]}-{id_[20:]}"


def random_fraction() -> float:
    """Return a number from 0 up to 1, without 1."""
    return int.from_bytes(_source(4), "big") / 2**32
