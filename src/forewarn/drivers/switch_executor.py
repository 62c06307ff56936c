"""Executor for starting and stopping VMs: one thread per VM, Underway until it ends.

Nothing is recorded: a switch names the desired state, so after a crash it is requested again and checks the current
state first.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from time import monotonic, sleep

from forewarn.clocks import Clock
from forewarn.core.errors import ForewarnError
from forewarn.core.model import Vm
from forewarn.drivers.run_record import RecordLocked
from forewarn.node.driver import ImpactDone, ImpactFailed, ImpactOutcome, ImpactUnderway

_WORTH_WAITING = 1.0
"""Seconds that a call waits for the result."""
_ASK_AGAIN = timedelta(milliseconds=200)
_POLL_EVERY = 0.1


class SwitchFailed(ForewarnError):
    """A VM could not be started or stopped."""


class SwitchExecutor:
    """Starts and stops VMs, each with one thread at a time."""

    def __init__(
        self, name: str, clock: Clock, do: Callable[..., str], worth_waiting: float = _WORTH_WAITING
    ) -> None:
        """``do(vm, on=on, term=term)`` switches a VM and returns a detail.

        It raises ForewarnError if it fails, and RecordLocked while another process switches the same VM.
        """
        self._name = name
        self._clock = clock
        self._do = do
        self._worth_waiting = worth_waiting
        self._running: dict[str, tuple[bool, Future[ImpactOutcome]]] = {}
        self._lock = threading.Lock()

    def switch(self, vm: Vm, *, on: bool, term: int = 0) -> ImpactOutcome:
        """Start switching a VM, or return the result; wait while the VM is being switched the other way."""
        with self._lock:
            was_on, ended = self._running.get(vm.name, (on, None))
            if ended is None:
                ended = Future()
                self._running[vm.name] = on, ended
                args, options = (vm, ended), {"on": on, "term": term}
                threading.Thread(target=self._work, args=args, kwargs=options, name=self._name, daemon=True).start()
        try:
            outcome = ended.result(self._worth_waiting)
        except TimeoutError:
            return self._later()
        with self._lock:
            if self._running.get(vm.name, (on, None))[1] is ended:
                del self._running[vm.name]
        return outcome if was_on is on else self._later()

    def _work(self, vm: Vm, ended: "Future[ImpactOutcome]", *, on: bool, term: int) -> None:
        try:
            ended.set_result(ImpactDone(detail=self._do(vm, on=on, term=term)))
        except RecordLocked:
            ended.set_result(self._later())
        except ForewarnError as error:
            ended.set_result(ImpactFailed(str(error)))
        except BaseException as error:  # noqa: BLE001 it is raised again in the caller's thread
            ended.set_exception(error)

    def _later(self) -> ImpactUnderway:
        return ImpactUnderway(self._clock.now() + _ASK_AGAIN)


def wait_until(is_so: Callable[[], bool], seconds: float) -> bool:
    """Poll until a claim holds; return False if it does not within so many seconds."""
    until = monotonic() + seconds
    while not is_so():
        if monotonic() >= until:
            return False
        sleep(_POLL_EVERY)
    return True
