"""How the agent's status and changes are told."""

import re

import msgspec
import pytest

from forewarn.agent.local.protocol import ChangeLine
from forewarn.cli.agent_output import describe_change, show_status
from forewarn.wire.event_json import make_event_json
from tests.agent.samples import REBOOT, SHOWN_ID, status, view


def line_of(line: ChangeLine) -> str:
    return re.sub(r"\d\d:\d\d(:\d\d)?", "HH:MM", describe_change(line))


def test_a_status_names_the_event_its_rule_and_what_the_approval_waits_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each in a line of its own, then the handlers."""
    show_status(status(msgspec.structs.replace(view(), approval_detail="held by database"), listeners=1))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "vm         web-0"
    assert lines[5].startswith("Reboot of web-0: Scheduled, not before ")
    assert lines[6:9] == [f"  event     {SHOWN_ID}", "  rule      reboots", "  approval  waiting: held by database"]
    assert lines[9].split() == ["HANDLER", "DOES", "STATE", "SINCE", "DETAIL"]
    assert lines[10].split()[:3] == ["lb", "do", "running"]


def test_an_event_that_is_gone_is_being_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    """It would not be there otherwise."""
    show_status(status(msgspec.structs.replace(view(), is_gone=True)))

    assert "Reboot of web-0: gone, and being put back" in capsys.readouterr().out


def test_without_events_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """And what is wrong with the agent, if anything is."""
    show_status(msgspec.structs.replace(status(trouble="nobody answers"), clock_trouble="it is late"))

    said = capsys.readouterr().out
    assert "clock      it is late" in said
    assert "trouble    nobody answers" in said
    assert said.endswith("\nno events\n")


def test_a_change_is_a_line() -> None:
    """When, which, what, of whom, and what is to come."""
    line = ChangeLine(change="new", event=make_event_json(REBOOT), concerns_me=False)

    assert re.fullmatch(
        r"HH:MM  F020BA2E-[-0-9A-F]{27}  new      Reboot of web-0, not of this VM: Scheduled, not before .* ago\)",
        line_of(line),
    )


def test_a_services_words_do_not_speak_to_the_terminal() -> None:
    """Nor does what a handler said."""
    hostile = msgspec.structs.replace(
        REBOOT, id="\x1b[2J", type="\x1b]0;x\x07", status="\n", resources=("web-0\nweb-9",)
    )
    line = ChangeLine(change="new", event=make_event_json(hostile), concerns_me=True)

    assert describe_change(line).isprintable()


def test_what_is_gone_tells_how_it_ended() -> None:
    """Nobody has to guess whether it happened."""
    line = ChangeLine(change="gone", ending="canceled", event=make_event_json(REBOOT), concerns_me=True)

    assert line_of(line) == "HH:MM  F020BA2E-3BC0-4C40-A10B-86575A9EABD5  gone     Reboot of web-0: canceled"
