"""The demo's claims: what does not hold ends it with a sentence."""

from contextlib import nullcontext
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from demo.cloud import Cloud
from demo.guest_observer import Sample
from demo.scenes import ClaimFailed, DemoRun
from demo.view import View


@pytest.fixture
def shown() -> StringIO:
    return StringIO()


@pytest.fixture
def play(tmp_path: Path, shown: StringIO) -> DemoRun:
    view = View(Console(file=shown))
    return DemoRun(Cloud(tmp_path, view), view)


def test_a_claim_that_does_not_hold_ends_the_demo(play: DemoRun, shown: StringIO) -> None:
    """It is shown with its cross, and is no claim that held."""
    with pytest.raises(ClaimFailed, match="web-1 and web-2 stood still at once"):
        play._claim("never two at once", False, "web-1 and web-2 stood still at once")

    assert "✗ web-1 and web-2 stood still at once" in shown.getvalue()
    assert play.claims == 0


@pytest.mark.parametrize(("gap", "holds"), [(4.4, False), (4.8, True), (5.1, True), (10.5, False)])
def test_a_gap_must_be_what_was_announced(
    play: DemoRun, monkeypatch: pytest.MonkeyPatch, gap: float, *, holds: bool
) -> None:
    """A little more is the machine's business; a freeze that was none, or had no end, is not."""
    monkeypatch.setattr(play, "_settle", lambda *_: None)
    guest = play._cloud.guests[0]
    guest.boots = ["a"]
    guest.samples = [Sample(10, 1, "a"), Sample(20 + gap, 11, "a")] + [Sample(21 + gap, 12, "a")] * 2

    with nullcontext() if holds else pytest.raises(ClaimFailed, match="where 5 s were announced"):
        play._claim_gap(15, 5, guest)


def test_a_boot_that_nobody_asked_for_is_no_boot_that_stayed(play: DemoRun) -> None:
    """The sentence names the guest."""
    guest = play._cloud.guests[2]
    guest.boots = ["a", "b"]

    with pytest.raises(ClaimFailed, match="web-2 booted anew"):
        play._claim_boots_stayed([guest], {"web-2": "a"})


@pytest.mark.parametrize(
    ("reboots", "why"), [("", "0 times, with 0"), ("0\n0\n", "2 times, with 0"), ("1\n", "1 times, with 1")]
)
def test_a_host_must_be_rebooted_once_and_without_guests(play: DemoRun, reboots: str, why: str) -> None:
    """The sentence tells how often it was, and how many guests that ended."""
    result = play._cloud.site.directory / "h1" / "reboots"
    result.parent.mkdir(parents=True)
    result.write_text(reboots)

    with pytest.raises(ClaimFailed, match=f"h1 was rebooted {why} guests on it"):
        play._claim_rebooted("h1")


def test_a_guest_that_does_not_answer_for_long_was_not_reachable(play: DemoRun) -> None:
    """A move takes a moment, and no more."""
    play._claim_reachable(play._cloud.guests[0], 1.0)
    with pytest.raises(ClaimFailed, match=r"web-0 did not answer pings for 20\.0 s"):
        play._claim_reachable(play._cloud.guests[0], 20.0)
