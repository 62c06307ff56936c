"""A VM is switched by one thread at a time, and whoever asks hears of the end."""

import threading

from forewarn.clocks import SystemClock
from forewarn.core.errors import Refused
from forewarn.core.model import Vm
from forewarn.drivers.run_record import RecordLocked
from forewarn.drivers.switch_executor import SwitchExecutor
from forewarn.node.driver import ImpactDone, ImpactFailed, ImpactOutcome, ImpactUnderway

VM = Vm("web-0", "web")


def ended(switches: SwitchExecutor, *, on: bool) -> ImpactOutcome:
    outcome = switches.switch(VM, on=on)
    while isinstance(outcome, ImpactUnderway):
        threading.Event().wait(0.01)
        outcome = switches.switch(VM, on=on)
    return outcome


def test_what_came_of_it_is_returned() -> None:
    """Done with what there is to say, Failed with the reason."""

    def do(vm: Vm, *, on: bool, **_: object) -> str:
        if on:
            return f"{vm.name} runs"
        raise Refused("it must run")

    switches = SwitchExecutor("test", SystemClock(), do)
    assert switches.switch(VM, on=True) == ImpactDone(detail="web-0 runs")
    assert switches.switch(VM, on=False) == ImpactFailed("it must run")


def test_it_is_under_way_until_it_ends_and_done_once() -> None:
    """Asked again it tells the end of the first call; the other way waits for that end."""
    may_end, calls = threading.Event(), []

    def do(_: Vm, *, on: bool, **__: object) -> str:
        calls.append(on)
        may_end.wait(30)
        return "on" if on else "off"

    switches = SwitchExecutor("test", SystemClock(), do, worth_waiting=0.01)
    assert isinstance(switches.switch(VM, on=True), ImpactUnderway)
    assert isinstance(switches.switch(VM, on=True), ImpactUnderway)
    assert isinstance(switches.switch(VM, on=False), ImpactUnderway)
    assert calls == [True]
    may_end.set()
    assert ended(switches, on=False) == ImpactDone(detail="off")
    assert calls == [True, False]


def test_while_another_process_switches_the_vm_it_is_under_way() -> None:
    """It is called again until the lock is free, with the term."""
    terms: list[int] = []

    def do(_: Vm, *, term: int, **__: object) -> str:
        terms.append(term)
        if len(terms) == 1:
            raise RecordLocked
        return ""

    switches = SwitchExecutor("test", SystemClock(), do)

    assert isinstance(switches.switch(VM, on=True, term=3), ImpactUnderway)
    assert switches.switch(VM, on=True, term=3) == ImpactDone()
    assert terms == [3, 3]
