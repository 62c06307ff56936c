"""The table of api-versions, row by row and column by column."""

import msgspec
import pytest

from forewarn.core.model import EventType
from forewarn.wire import versions
from forewarn.wire.versions import API_VERSIONS, BY_NAME, NEWEST

NAMES = ["2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01"]


def test_there_are_seven_versions_oldest_first() -> None:
    """The complete list, and the newest is the last."""
    assert [version.name for version in API_VERSIONS] == NAMES
    assert NEWEST.name == "2020-07-01"


def test_a_versions_index_is_its_place_in_the_table() -> None:
    """What is kept per version can be a list."""
    assert [version.index for version in API_VERSIONS] == list(range(7))


@pytest.mark.parametrize(
    ("claim", "since"),
    [("has_description", "2019-04-01"), ("has_source", "2019-08-01"), ("has_duration", "2020-07-01")],
)
def test_a_field_stays_once_it_came(claim: str, since: str) -> None:
    """Fields are only ever added."""
    assert [version.name for version in API_VERSIONS if getattr(version, claim)] == NAMES[NAMES.index(since) :]


@pytest.mark.parametrize(
    ("type_", "since"),
    [
        (EventType.FREEZE, "2017-03-01"),
        (EventType.REBOOT, "2017-03-01"),
        (EventType.REDEPLOY, "2017-03-01"),
        (EventType.PREEMPT, "2017-11-01"),
        (EventType.TERMINATE, "2019-01-01"),
    ],
)
def test_a_type_is_seen_from_its_first_version_on(type_: EventType, since: str) -> None:
    """Older versions do not know it."""
    assert [version.name for version in API_VERSIONS if type_ in version.types] == NAMES[NAMES.index(since) :]


def test_only_the_first_version_has_underscores_and_waives_the_header_on_post() -> None:
    """Both ended with general availability."""
    assert [version.name for version in API_VERSIONS if version.underscore_names] == ["2017-03-01"]
    assert [version.name for version in API_VERSIONS if not version.header_required_on_post] == ["2017-03-01"]


def test_versions_are_found_by_their_exact_name() -> None:
    """``latest`` is none of them, and neither is a version of the other route."""
    assert BY_NAME["2019-08-01"].has_source
    assert not {"latest", "2017-04-02", ""} & set(BY_NAME)


@pytest.mark.parametrize(
    ("route", "newest"),
    [
        (versions.SCHEDULED_EVENTS, ("2020-07-01", "2019-08-01", "2019-04-01")),
        (versions.INSTANCE, ("2025-04-07", "2024-07-17", "2024-03-15")),
        (versions.ALL, ("2025-04-07", "2024-07-17", "2024-03-15")),
    ],
)
def test_a_route_recommends_its_own_three_newest(route: versions.VersionSet, newest: tuple[str, ...]) -> None:
    """Newest first, as the refusal names them."""
    assert route.newest == newest


def test_the_routes_have_sets_of_their_own() -> None:
    """A version of one route is not one of the other, unless both have it."""
    assert "2021-02-01" not in versions.SCHEDULED_EVENTS.known
    assert "2017-11-01" not in versions.INSTANCE.known
    assert len(versions.INSTANCE.names) == 35
    assert versions.ALL.known == versions.INSTANCE.known | versions.SCHEDULED_EVENTS.known


def test_the_list_of_versions_is_the_union_oldest_first() -> None:
    """What ``GET /metadata/versions`` answers."""
    listed = msgspec.json.decode(versions.VERSIONS_BODY)["apiVersions"]
    assert listed[:3] == ["2017-03-01", "2017-04-02", "2017-08-01"]
    assert listed == sorted(versions.ALL.known)
    assert len(listed) == 39
