"""How long a guest could not be reached, by its answers to pings."""

import subprocess
from pathlib import Path

import pytest

from demo.guest_observer import GuestObservations
from demo.pings import Pings
from demo.service import wait_for
from demo.site import Site

GUEST = GuestObservations("web-0", "127.0.0.1", 0)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site in the network of this machine."""
    site = Site(tmp_path)
    monkeypatch.setattr(site, "command", lambda *words: list(words))
    return site


def test_answers_end_a_silence(site: Site) -> None:
    """It is the longest time between two answers, or before the first, or after the last."""
    pings = Pings(site, [GUEST])
    pings._answers = {"web-0": [10.0, 10.2, 13.2, 13.3]}
    assert pings.silence("web-0") == pytest.approx(3.0)


@pytest.mark.end_to_end
def test_a_guest_that_answers_is_heard(site: Site) -> None:
    """The program that pings is the real one, and it is gone afterwards."""
    with Pings(site, [GUEST]) as pings:
        wait_for("answers", lambda: len(pings._answers["web-0"]) >= 3)
    assert len(pings._answers["web-0"]) >= 4
    assert all(process.returncode is not None for process, _ in pings._running)


def test_a_guest_that_never_answers_is_silent_all_the_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its silence is as long as it was pinged."""
    monkeypatch.setattr(site, "begin", lambda *_, **more: subprocess.Popen(["sleep", "60"], **more))
    with Pings(site, [GUEST]) as pings:
        pass
    begin, end = pings._answers["web-0"]
    assert pings.silence("web-0") == end - begin
