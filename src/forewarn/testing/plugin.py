"""The pytest plugin: the fixture ``scheduled_events``. Everything else is imported when a test asks for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from forewarn.testing.scheduled_events import ScheduledEvents

_MARK = (
    "scheduled_events(*vms, fleet=None, scenario=None, clock='manual', hurry=1.0, seed=0, patience=30.0): "
    "what the fixture scheduled_events runs; a VM named web-0 where nothing is said"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)


@pytest.fixture
def scheduled_events(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> "Iterator[ScheduledEvents]":
    """Run the service for one test, on a free port; the mark of the same name says with which fleet."""
    from forewarn.core.errors import ForewarnError  # noqa: PLC0415 - only when asked for
    from forewarn.testing.scheduled_events import URL_VARIABLE  # noqa: PLC0415

    mark = request.node.get_closest_marker("scheduled_events")
    try:
        running = _made_by(mark).start()
    except ForewarnError as error:
        pytest.fail(f"the mark scheduled_events: {error}", pytrace=False)
    try:
        monkeypatch.setenv(URL_VARIABLE, running.events_url)
        yield running
    finally:
        running.stop()


def _made_by(mark: pytest.Mark | None) -> "ScheduledEvents":
    from inspect import signature  # noqa: PLC0415 - only when asked for

    from forewarn.core.errors import BadInput, nearest  # noqa: PLC0415
    from forewarn.testing.scheduled_events import ScheduledEvents  # noqa: PLC0415

    if mark is None:
        return ScheduledEvents()
    known = [name for name in signature(ScheduledEvents).parameters if name != "vms"]
    for name in mark.kwargs:
        if name not in known:
            near = nearest(name, known) or f"; known are {', '.join(known)}"
            raise BadInput(f"there is no argument {name!r}{near}")
    return ScheduledEvents(*mark.args, **mark.kwargs)
