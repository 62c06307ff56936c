"""``forewarn approve`` in a VM."""

from collections.abc import Iterator

import pytest

from forewarn.emulator import Emulator
from tests.cli.conftest import Forewarn


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    with Emulator("web-0", "web-1") as emulator:
        monkeypatch.setenv("SCHEDULED_EVENTS_URL", emulator.url)
        yield emulator


def test_an_event_is_approved_by_the_beginning_of_its_id(forewarn: Forewarn, emulator: Emulator) -> None:
    """In any case; a neighbour's too, as it is named."""
    event = emulator.vm("web-1").reboot()
    ended = forewarn("approve", event.id[:6])

    assert (ended.code, ended.out) == (0, f"approved {event.shown_id[:8]}: Reboot of web-1\n")
    assert event.approved_by == ("web-0",)


def test_all_are_those_that_concern_this_vm(forewarn: Forewarn, emulator: Emulator) -> None:
    """A neighbour may not be ready."""
    mine, other = emulator.vm("web-0").reboot(), emulator.vm("web-1").reboot()
    told = forewarn("approve", "--all", "--json").json

    assert [each["id"] for each in told] == [mine.shown_id]
    assert (mine.status, other.status) == ("started", "scheduled")
    assert forewarn("approve", "--all").out == "nothing to approve: no event that waits concerns this VM\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["zz"], 1, "there is no event 'zz' now"),
        ([], 2, "name the events that may start, or give --all"),
        (["zz", "--all"], 2, "name the events that may start, or give --all"),
        ([""], 2, "'' is the beginning of 2 events"),
    ],
)
def test_what_cannot_be_approved_is_said(
    forewarn: Forewarn, emulator: Emulator, words: list[str], code: int, said: str
) -> None:
    """And nothing is approved."""
    events = [emulator.vm(name).reboot() for name in ("web-0", "web-1")]
    ended = forewarn("approve", *words)

    assert ended.code == code
    assert said in ended.err
    assert [event.approved_by for event in events] == [(), ()]


def test_one_id_that_is_unknown_spoils_the_others(forewarn: Forewarn, emulator: Emulator) -> None:
    """Half an approval would be hard to see."""
    event = emulator.vm("web-0").reboot()

    assert forewarn("approve", event.id, "zz").code == 1
    assert event.approved_by == ()
