"""``forewarn approve`` in a VM."""

from collections.abc import Iterator

import pytest

from forewarn.emulator import Emulator
from tests.cli.conftest import Forewarn
from tests.conformance.kit.mock import Mock


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    with Emulator("web-0", "web-1") as emulator:
        monkeypatch.setenv("SCHEDULED_EVENTS_URL", emulator.url)
        yield emulator


def test_an_event_is_approved_by_the_beginning_of_its_id(forewarn: Forewarn, emulator: Emulator) -> None:
    """In any case; a neighbour's too, as it is named."""
    event = emulator.vm("web-1").reboot()
    ended = forewarn("approve", event.id[:6])

    assert (ended.code, ended.out) == (0, f"approved {event.shown_id}: Reboot of web-1\n")
    assert event.approved_by == ("web-0",)


def test_all_are_those_that_concern_this_vm(forewarn: Forewarn, emulator: Emulator) -> None:
    """A neighbour may not be ready."""
    mine, other = emulator.vm("web-0").reboot(), emulator.vm("web-1").reboot()
    result = forewarn("approve", "--all", "--json").json

    assert [each["id"] for each in result] == [mine.shown_id]
    assert (mine.status, other.status) == ("started", "scheduled")
    assert forewarn("approve", "--all").out == "nothing to approve: no event that waits concerns this VM\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["zz"], 1, "there is no event 'zz' now"),
        ([], 2, "name the events that may start, or give --all"),
        (["zz", "--all"], 2, "name the events that may start, or give --all"),
        ([""], 2, "it is empty; give a value"),
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


def test_waiting_tells_that_the_event_has_started(forewarn: Forewarn, emulator: Emulator) -> None:
    """In a sentence, or as a key of JSON."""
    first = emulator.vm("web-0").reboot()
    ended = forewarn("approve", first.id, "--wait")
    assert (ended.code, ended.out.splitlines()[1]) == (0, f"{first.shown_id} has started")

    second = emulator.vm("web-1").reboot()
    assert [each["effect"] for each in forewarn("approve", second.id, "--wait", "--json").json] == ["started"]


def test_waiting_tells_that_the_event_waits(forewarn: Forewarn, emulator: Emulator) -> None:
    """It is known to the service, and must wait its turn; the exit code says that the limit is reached."""
    for name in ("web-0", "web-1"):
        emulator.vm(name).freeze()
    first, second = emulator.events
    forewarn("approve", first.id)
    ended = forewarn("approve", second.id, "--wait", "--within", "0.1s")

    assert ended.code == 4
    assert "is still Scheduled after 0.1s: the service accepted the approval" in ended.out
    ended = forewarn("approve", second.id, "--wait", "--within", "0s", "--json")
    assert (ended.code, [each["effect"] for each in ended.json]) == (4, ["waiting"])


@pytest.mark.parametrize("kind", ["exact", "silent"])
def test_a_service_that_compares_ids_exactly_is_served(forewarn: Forewarn, kind: str) -> None:
    """The id goes back as it was shown, however it is written here."""
    with Mock(has_lower_ids=True, is_silent=kind == "silent") as mock:
        id_ = mock.events[0]["EventId"]
        ended = forewarn("approve", id_[:8].upper(), "--wait", "--url", mock.url)

        assert (ended.code, ended.out.splitlines()[0]) == (0, f"approved {id_}: Freeze of web-0")
        assert mock.events[0]["EventStatus"] == "Started"


def test_waiting_tells_a_service_that_ignores_approvals(forewarn: Forewarn) -> None:
    """It answers 200, whatever is approved."""
    with Mock(is_silent=True) as mock:
        mock.is_deaf = True
        ended = forewarn("approve", mock.events[0]["EventId"], "--wait", "--within", "0s", "--url", mock.url)

    assert ended.code == 4
    assert "it may have ignored the approval" in ended.out


@pytest.mark.parametrize("words", [["--within", "5s"], ["--wait", "--within", "soon"], ["--wait", "--within", ""]])
def test_a_limit_needs_something_to_limit(forewarn: Forewarn, emulator: Emulator, words: list[str]) -> None:
    """And it is a duration."""
    event = emulator.vm("web-0").reboot()
    assert forewarn("approve", event.id, *words).code == 2
    assert event.approved_by == ()
