"""A VM is switched by one thread at a time, and whoever asks hears of the end."""

import threading

from forewarn.clocks import SystemClock
from forewarn.core.errors import Refused
from forewarn.core.model import Vm
from forewarn.drivers import switching
from forewarn.drivers.switching import Switches
from forewarn.node.driver import Done, Failed, Outcome, Underway

VM = Vm("web-0", "web")


def ended(switches: Switches, *, on: bool) -> Outcome:
    outcome = switches.switch(VM, on=on)
    while isinstance(outcome, Underway):
        threading.Event().wait(0.01)
        outcome = switches.switch(VM, on=on)
    return outcome


def test_what_came_of_it_is_returned() -> None:
    """Done with what there is to say, Failed with the reason."""

    def do(vm: Vm, *, on: bool) -> str:
        if on:
            return f"{vm.name} runs"
        raise Refused("it must run")

    switches = Switches("test", SystemClock(), do)
    assert switches.switch(VM, on=True) == Done(detail="web-0 runs")
    assert switches.switch(VM, on=False) == Failed("it must run")


def test_it_is_under_way_until_it_ends_and_done_once() -> None:
    """Asked again it tells the end of the first call; the other way waits for that end."""
    may_end, calls = threading.Event(), []

    def do(_: Vm, *, on: bool) -> str:
        calls.append(on)
        may_end.wait(30)
        return "on" if on else "off"

    switches = Switches("test", SystemClock(), do)
    switching_within = switching.WORTH_WAITING
    switching.WORTH_WAITING = 0.01
    try:
        assert isinstance(switches.switch(VM, on=True), Underway)
        assert isinstance(switches.switch(VM, on=True), Underway)
        assert isinstance(switches.switch(VM, on=False), Underway)
        assert calls == [True]
        may_end.set()
        assert ended(switches, on=False) == Done(detail="off")
    finally:
        switching.WORTH_WAITING = switching_within
    assert calls == [True, False]
