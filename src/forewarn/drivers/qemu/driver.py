"""A driver for plain QEMU processes: stop and cont, power button and reset, migration between two of them, quit.

    perform ──▶ a thread holds the event's page and works ──▶ within some seconds: how it ended
                                                        └──▶ else Underway, until outcome_of finds the end

What the thread is about to do is written down before it is done. After a crash ``outcome_of`` lets another thread go
on from there; so nothing is done twice, and no guest stays frozen.
"""

import glob
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Self

from forewarn.clocks import Clock
from forewarn.core.model import EventType, Sighting, Vm
from forewarn.core.notice import MACHINE_FAILURE
from forewarn.drivers.ledger import Ending, Ledger, Page
from forewarn.drivers.qemu import checking, deeds, moves
from forewarn.drivers.qemu.deeds import Deed, Interrupted
from forewarn.drivers.qemu.monitors import Monitors, Trouble
from forewarn.drivers.qemu.settings import QemuSettings, read
from forewarn.drivers.qemu.sights import Sights
from forewarn.drivers.record import Locked
from forewarn.node.driver import Done, Failed, Impact, NotBegun, Outcome, Underway, Unknowable

log = logging.getLogger(__name__)

PATIENCE = 20.0
"""Seconds that a call waits for the end of what it began."""
CHECK_AGAIN = timedelta(seconds=1)
LOOK_FOR_MACHINES_EVERY = 1.0
UNANNOUNCED_FREEZE = 5.0


class QemuDriver:
    """Does impacts to QEMU processes over their monitors."""

    def __init__(self, settings: QemuSettings, clock: Clock, directory: Path | None) -> None:
        self.moves_live = bool(settings.receive)
        self._settings = settings
        self._clock = clock
        self._ledger = Ledger(directory, clock)
        self._sights = Sights(settings, clock)
        self._monitors = Monitors(self._sights.hear)
        self._closing = threading.Event()
        self._working: set[threading.Thread] = set()

    @classmethod
    def from_settings(
        cls,
        settings: dict[str, object],
        clock: Clock,
        hurry: float,
        directory: Path | None = None,
    ) -> Self:
        return cls(read(settings), clock, directory)

    def perform(self, impact: Impact) -> Outcome:
        return self._in_thread(impact)

    def outcome_of(self, impact: Impact) -> Outcome:
        try:
            page = self._ledger.read(impact.event.id)
        except Locked:
            return self._later()
        except OSError as error:
            return Unknowable(f"the record of the event cannot be read: {error}")
        if page.ending:
            return page.ending
        if page.begun:
            return self._in_thread(impact)
        if self._ledger.may_have_forgotten(impact.attempted_at):
            return Unknowable("it may have been done, but its record is deleted by now")
        return NotBegun()

    def watch(self, report: Callable[[Sighting], None]) -> None:
        self._sights.report = report
        threading.Thread(target=self._look_for_machines, name="qemu-watch", daemon=True).start()

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        return tuple(checking.troubles(self._settings, vms))

    def close(self) -> None:
        self._closing.set()
        for thread in list(self._working):
            thread.join(PATIENCE)
        self._monitors.close()
        self._ledger.close()

    def _in_thread(self, impact: Impact) -> Outcome:
        outcome: Future[Outcome] = Future()

        def work() -> None:
            try:
                outcome.set_result(self._work(impact))
            except BaseException as error:  # noqa: BLE001 it is raised again in the caller's thread
                outcome.set_exception(error)
            finally:
                self._working.discard(thread)

        thread = threading.Thread(target=work, name="qemu", daemon=True)
        self._working.add(thread)
        thread.start()
        try:
            return outcome.result(PATIENCE)
        except TimeoutError:
            return self._later()

    def _work(self, impact: Impact) -> Outcome:
        """Do what is left to do for an event, and write down how it ended."""
        try:
            with self._ledger.held(impact.event.id) as page:
                if page.ending:
                    return page.ending
                if page.begun is None:
                    page.begin(impact)
                try:
                    return page.end(self._do(page.begun or impact, page))
                except Interrupted:
                    return self._later()
        except Locked:
            return self._later()
        except OSError as error:
            return Failed(f"what is done cannot be recorded in {self._ledger.directory}: {error.strerror}")

    def _do(self, impact: Impact, page: Page) -> Ending:
        """Do it to all VMs at once."""
        with ThreadPoolExecutor(len(impact.vms), thread_name_prefix="qemu-vm") as threads:
            parts = {vm.name: threads.submit(self._do_to, impact, page, vm) for vm in impact.vms}
        hosts: dict[str, str] = {}
        details: dict[str, str] = {}
        failures: dict[str, str] = {}
        for name, part in parts.items():
            try:
                host, details[name] = part.result()
                if host:
                    hosts[name] = host
            except Trouble as trouble:
                failures[name] = str(trouble)
        if failures:
            return Failed(_told(failures, len(parts)), hosts)
        return Done(hosts, _told(details, len(parts)))

    def _do_to(self, impact: Impact, page: Page, vm: Vm) -> tuple[str, str]:
        """Do it to one VM; return the host it moved to, if it did, and what there is to say."""
        deed = Deed(self._settings, self._monitors, self._clock, page, vm, self._closing)
        match impact.event.type:
            case EventType.PREEMPT | EventType.TERMINATE:
                return "", deeds.end(deed, deletes=impact.deletes)
            case EventType.REBOOT:
                return "", deeds.reboot(deed)
            case EventType.FREEZE if not impact.moves:
                announced = float(impact.event.duration)
                return "", deeds.freeze(deed, announced if announced >= 0 else UNANNOUNCED_FREEZE)
            case _ if impact.is_failure or not self.moves_live:
                may_stay = impact.event.operation == MACHINE_FAILURE
                return moves.rebuild(deed, impact.berths, may_stay=may_stay), "started anew"
            case _:
                return moves.move(deed, impact.berths, self._sights), "moved while it ran"

    def _look_for_machines(self) -> None:
        """Listen to every machine there is, and find new ones, until the driver is closed."""
        puzzling: set[Path] = set()
        while not self._closing.is_set():
            found = {Path(name) for name in glob.glob(self._settings.everywhere)}  # noqa: PTH207 an absolute pattern
            try:
                silent = self._monitors.open_all(found)
            except Trouble:
                return  # it was closed meanwhile
            for path, trouble in silent.items():
                if path not in puzzling:
                    log.warning("nothing is heard from a machine: %s", trouble)
            puzzling = set(silent)
            self._closing.wait(LOOK_FOR_MACHINES_EVERY)

    def _later(self) -> Underway:
        return Underway(self._clock.now() + CHECK_AGAIN)


def _told(words: dict[str, str], count: int) -> str:
    """Say what there is to say of each VM; of one alone without its name."""
    if count == 1:
        return next(iter(words.values()), "")
    return "; ".join(f"{name}: {text}" for name, text in sorted(words.items()) if text)
