"""How the demo is shown: plain lines where nobody wants to see things move, a picture where somebody does."""

import io

import pytest
from rich.console import Console

from demo.guest_observer import GuestObservations, Sample
from demo.view import View


def console(width: int = 80, *, is_terminal: bool = True) -> Console:
    return Console(
        file=io.StringIO(), width=width, height=24, force_terminal=is_terminal, color_system=None, _environ={}
    )


def said(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("variable", ["NO_COLOR", "CI", ""])
def test_plain_lines_tell_everything(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Without a terminal, and where a variable asks for it, guests and journal are lines among the claims."""
    if variable:
        monkeypatch.setenv(variable, "1")
    shown = console(is_terminal=bool(variable))
    with View(shown) as view:
        view.show([])
        view.tell_heard(GuestObservations("web-0", "", 0), "I have booted")
        view.tell_recorded("Reboot of web-0 is over")
        view.tell_claim("its machine is gone", holds=True)

    assert "web-0 says: I have booted" in said(shown)
    assert "journal: Reboot of web-0 is over" in said(shown)
    assert "✓ its machine is gone" in said(shown)
    assert not {"╭", "\x1b"} & set(said(shown))


def test_the_last_word_is_the_last() -> None:
    """What guests say while they are taken away is not told any more."""
    shown = console(is_terminal=False)
    with View(shown) as view:
        view.end("Interrupted.", is_good=False)
        view.tell_heard(GuestObservations("web-0", "", 0), "I have booted")
        view.tell_recorded("Reboot of web-0 is over")

    assert said(shown) == "\nInterrupted.\n"


@pytest.mark.parametrize("width", [80, 140])
def test_a_terminal_shows_guests_and_journal_in_a_picture(width: int) -> None:
    """Name, boot id, clock, state and last words of each, whole, and the newest of the journal."""
    shown = console(width)
    guest = GuestObservations("web-0", "", 0, state="frozen", words="I am ready: approved")
    guest.boots.append("3f2a91c0-0000")
    guest.samples.append(Sample(100, 12.34, "3f2a91c0-0000"))
    with View(shown) as view:
        view.show([guest])
        for number in range(20):
            view.tell_recorded(f"fact {number}")
        shown.print(view._picture())

    picture = said(shown)
    for words in ("web-0", "3f2a ", "12.3 s", "frozen", "I am ready: approved", "fact 19"):
        assert words in picture
    assert "fact 2 " not in picture
    assert ("╮╭" in picture) == (width == 140)
