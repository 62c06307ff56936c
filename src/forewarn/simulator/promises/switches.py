"""The promise about starts and stops of machines: none is done again that nobody asked for again."""

from forewarn.simulator.exchanges import MachineOperation
from forewarn.simulator.promises.memory import CheckerMemory

_AROUND = 120.0
"""Seconds within which the driver is called for what was asked for."""


class SwitchPromises:
    """Checks the calls that start and stop machines; who asked for one may be answered later than it."""

    def __init__(self, memory: CheckerMemory) -> None:
        self._memory = memory
        self._failed: dict[str, MachineOperation] = {}
        """By VM, its last start or stop, if that failed."""
        self._repeated: list[tuple[MachineOperation, MachineOperation]] = []
        """Starts and stops that failed, each with the next one."""
        self._switched: dict[str, MachineOperation] = {}
        """By VM, its last start or stop that succeeded."""
        self._done_again: list[tuple[MachineOperation, MachineOperation]] = []
        """Starts and stops that succeeded, each with the same one done again by the same process."""

    def see_operation(self, done: MachineOperation) -> None:
        """Compare a call with the last one for the same machine."""
        self._is_not_repeated(done)
        self._is_not_done_again(done)

    def settle(self) -> None:
        for failed, done in self._repeated:
            if not self._was_asked_again(failed, done):
                self._memory.report(
                    done.at, f"machine {done.vm}: {done.what}, after that had failed, and nobody asked again"
                )
        for first, done in self._done_again:
            if not self._may_be_done_again(first, done):
                self._memory.report(
                    done.at, f"machine {done.vm}: {done.what}, first at {first.at:.3f} s, as nobody asked"
                )

    def _is_not_repeated(self, done: MachineOperation) -> None:
        """Check that a start or stop which failed is not tried again without being asked for."""
        memory, failed = self._memory, self._failed.pop(done.vm, None)
        if done.what.endswith(" failed"):
            self._failed[done.vm] = done
        if failed is None or done.event or memory.disk.may_fail(0.0, done.at):
            return
        if memory.service.is_unchanged(failed.at, done.at):
            self._repeated.append((failed, done))

    def _is_not_done_again(self, done: MachineOperation) -> None:
        """Check that a start or stop which succeeded is not done again without being asked for."""
        switch = done.what.removesuffix(" again")
        if switch not in ("start", "stop"):
            return
        first = self._switched.get(done.vm)
        self._switched[done.vm] = done
        is_same = first is not None and first.what.removesuffix(" again") == switch
        if first and is_same and self._memory.service.is_unchanged(first.at, done.at):
            self._done_again.append((first, done))

    def _may_be_done_again(self, first: MachineOperation, done: MachineOperation) -> bool:
        memory, begin = self._memory, first.at - _AROUND
        is_unclear = bool(memory.plan.nodes) or done.vm in memory.befallen or memory.disk.may_fail(begin, done.at)
        return (
            is_unclear or memory.power.times_asked(done.vm, begin, done.at) > 1
        )  # the first call was asked for, too

    def _was_asked_again(self, failed: MachineOperation, done: MachineOperation) -> bool:
        """Return whether a start or stop was asked for after a failed one, or is the other one and was under way."""
        is_stop, was_stop = done.what.startswith("stop"), failed.what.startswith("stop")
        power = self._memory.power
        is_other = is_stop is not was_stop and power.was_under_way(done.vm, is_stop, failed.at, done.at)
        return is_other or power.was_asked(done.vm, failed.at, done.at)
