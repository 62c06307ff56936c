"""The base of all facts, and the version of the format that they are stored in."""

from typing import ClassVar

import msgspec

FORMAT = 1
"""The version of the journal's format; a newer one is refused."""


class Fact(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="fact"):
    """A fact."""

    since_format: ClassVar[int] = 1
    """The first format that has this kind of fact: nodes that read older formats only must not find it."""
