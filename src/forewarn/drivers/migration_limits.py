"""Types of the settings that limit live migrations."""

from typing import Annotated

from msgspec import Meta

MIGRATIONS = 4
"""How many run at once unless the setting says otherwise."""

Migrations = Annotated[int, Meta(ge=1, le=1_000)]
Bandwidth = Annotated[int, Meta(ge=0, le=1_000_000)]
"""MiB per second."""
