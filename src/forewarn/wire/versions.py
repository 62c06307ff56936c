"""Which api-versions there are, and what each shows. The two routes have sets of their own that overlap.

Versions only ever add: each row shows what the row above it shows, and one thing more.
"""

from collections.abc import Iterable

import msgspec

from forewarn.core.model import EventType
from forewarn.wire.azure_names import TYPES_SHOWN


def types_shown(version: str) -> frozenset[EventType]:
    return frozenset(type_ for type_, (_, since) in TYPES_SHOWN.items() if since <= version)


class ApiVersion(msgspec.Struct, frozen=True):
    """One api-version of ``/metadata/scheduledevents``."""

    name: str
    index: int
    """Its place in ``API_VERSIONS``, so that what is kept per version can be a plain list."""
    types: frozenset[EventType]
    """The types it shows; events of other types are left out."""
    underscore_names: bool = False
    """VM names have a leading underscore (not those of cloud services)."""
    header_required_on_post: bool = True
    has_description: bool = False
    has_source: bool = False
    has_duration: bool = False


API_VERSIONS = (
    ApiVersion("2017-03-01", 0, types_shown("2017-03-01"), underscore_names=True, header_required_on_post=False),
    ApiVersion("2017-08-01", 1, types_shown("2017-08-01")),
    ApiVersion("2017-11-01", 2, types_shown("2017-11-01")),
    ApiVersion("2019-01-01", 3, types_shown("2019-01-01")),
    ApiVersion("2019-04-01", 4, types_shown("2019-04-01"), has_description=True),
    ApiVersion("2019-08-01", 5, types_shown("2019-08-01"), has_description=True, has_source=True),
    ApiVersion("2020-07-01", 6, types_shown("2020-07-01"), has_description=True, has_source=True, has_duration=True),
)
NEWEST = API_VERSIONS[-1]
BY_NAME = {version.name: version for version in API_VERSIONS}

# fmt: off
_INSTANCE_VERSIONS = (
    "2017-03-01", "2017-04-02", "2017-08-01", "2017-10-01", "2017-12-01",
    "2018-02-01", "2018-04-02", "2018-10-01",
    "2019-02-01", "2019-03-11", "2019-04-30", "2019-06-01", "2019-06-04", "2019-08-01", "2019-08-15",
    "2019-11-01",
    "2020-06-01", "2020-07-15", "2020-09-01", "2020-10-01", "2020-12-01",
    "2021-01-01", "2021-02-01", "2021-03-01", "2021-05-01", "2021-08-01", "2021-10-01",
    "2021-11-01", "2021-11-15", "2021-12-13",
    "2023-07-01", "2023-11-15",
    "2024-03-15", "2024-07-17",
    "2025-04-07",
)
# fmt: on


class VersionSet(msgspec.Struct, frozen=True):
    """The names one route answers to, oldest first."""

    names: tuple[str, ...]
    known: frozenset[str]
    newest: tuple[str, ...]
    """The three that a refusal recommends, newest first."""


def _version_set(names: Iterable[str]) -> VersionSet:
    # The names are dates, year first: their order as text is their order in time.
    ordered = tuple(sorted(set(names)))
    return VersionSet(ordered, frozenset(ordered), ordered[:-4:-1])


SCHEDULED_EVENTS = _version_set(BY_NAME)
INSTANCE = _version_set(_INSTANCE_VERSIONS)
ALL = _version_set(SCHEDULED_EVENTS.names + INSTANCE.names)
"""What ``/metadata/versions`` lists, and what a route that does not exist is held to."""

VERSIONS_BODY = msgspec.json.encode({"apiVersions": ALL.names})
"""The answer to ``GET /metadata/versions``."""
