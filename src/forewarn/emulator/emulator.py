"""The emulator's Python API: runs the emulation in its own thread; every call waits until the emulation is idle."""

import threading
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Literal, Self, TypeVar

import msgspec

from forewarn.config.settings import NoticeSettings
from forewarn.core.errors import BadInput, unknown
from forewarn.emulator.arguments import (
    Duration,
    check_clock,
    check_kind,
    check_names,
    check_now,
    check_number,
    check_whole,
    duration_of,
    several,
)
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.event_log import EventLife
from forewarn.emulator.expectations import Verdict
from forewarn.emulator.faults import Fault, fault_kind
from forewarn.emulator.handles import EventHandle, HostHandle, VmHandle, copied
from forewarn.emulator.player import ScenarioPlayer
from forewarn.emulator.requests import SentRequest
from forewarn.emulator.scenario import USUAL_VM, Scenario, load
from forewarn.emulator.setup import EmulationSetup, fleet_of
from forewarn.emulator.thread import LoopThread
from forewarn.emulator.verbs import Verb
from forewarn.fleetfile import parser
from forewarn.fleetfile.parser import DesiredFleet
from forewarn.wire.versions import BY_NAME

_Result = TypeVar("_Result")

_LONGEST_STOP = 10.0
_GRACE = 5.0
"""Seconds beyond ``patience``, which reports what is busy; after that the event loop itself hangs."""


class Emulator:
    """The real service on an emulated fleet.

    With the clock ``manual`` time stands still until ``advance``, beginning at ``now`` or else the real time; with
    ``system`` it runs. ``fleet`` is a fleet or a fleet file; a scenario begins at the start. ``notice`` replaces
    Azure's least notice of each event type. A call that takes longer than ``patience`` seconds of the real clock
    raises Unavailable, which names what it waited for.
    """

    def __init__(
        self,
        *vms: str,
        fleet: DesiredFleet | Path | str | None = None,
        scenario: Scenario | str | None = None,
        clock: Literal["manual", "system"] = "manual",
        now: datetime | None = None,
        hurry: float = 1.0,
        faults: Iterable[Fault] = (),
        seed: int = 0,
        host: str = "127.0.0.1",
        port: int = 0,
        notice: NoticeSettings | None = None,
        patience: float = 30.0,
    ) -> None:
        if sum(each is not None for each in (vms or None, fleet, scenario)) > 1:
            raise BadInput("several of VM names, fleet and scenario are given; give one of them")
        check_names(vms)
        check_clock(clock)
        check_number("hurry", hurry, "60")
        check_number("patience", patience, "30.0")
        check_whole("seed", seed)
        check_whole("port", port)
        check_now(now)
        check_kind("fleet", fleet, (DesiredFleet, Path, str), "a fleet file such as 'fleet.toml'")
        check_kind("scenario", scenario, (Scenario, str), "a name or a file such as 'reboot'")
        check_kind("host", host, (str,), "an address such as '127.0.0.1'")
        check_kind(
            "notice", notice, (NoticeSettings,), "Notice(reboot=timedelta(minutes=5)), from forewarn.config.settings"
        )
        faults = several("a fault", faults, Fault, "a Fault; use add_fault(…) to add one by name")
        self._scenario = load(scenario) if isinstance(scenario, str) else scenario
        setup = self._scenario.setup if self._scenario else EmulationSetup(fleet=_fleet(fleet, vms))
        setup = msgspec.structs.replace(setup, faults=(*setup.faults, *faults), notice=notice or setup.notice)
        self._stage = setup
        self._patience = patience
        self._make = partial(
            Emulation,
            setup,
            virtual_time=clock == "manual",
            now=now,
            hurry=hurry,
            seed=seed,
            host=host,
            port=port,
            patience=patience,
        )
        self._thread: LoopThread | None = None
        self._emulation: Emulation | None = None
        self._player: ScenarioPlayer | None = None
        self._changes = 0
        self._change = threading.Condition()

    def start(self) -> Self:
        self._thread = thread = LoopThread()

        async def start() -> Emulation:
            emulation = self._make()
            emulation.watch(self._tell)
            await emulation.start()
            if self._scenario:
                self._player = ScenarioPlayer(emulation, self._scenario)
                self._player.begin()
            return emulation

        try:
            self._emulation = thread.run(start(), "start", self._patience + _GRACE)
        except BaseException:
            self._thread = None
            thread.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop and release all resources; do nothing if it is not running."""
        thread, self._thread = self._thread, None
        emulation, self._emulation = self._emulation, None
        if thread and emulation:
            try:
                thread.run(emulation.stop(), "stop", _LONGEST_STOP)
            finally:
                thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the first VM asks."""
        return self.url_of(next(iter(self._stage.fleet.vms)))

    def url_of(self, vm: str) -> str:
        return self._running.url(vm)

    @property
    def vms(self) -> tuple[VmHandle, ...]:
        return tuple(map(self.vm, self._stage.fleet.vms))

    def vm(self, name: str) -> VmHandle:
        if name not in self._stage.fleet.vms:
            raise unknown("VM", name, self._stage.fleet.vms)
        return VmHandle(self, name)

    def host(self, name: str) -> HostHandle:
        if name not in self._stage.fleet.hosts:
            raise unknown("host", name, self._stage.fleet.hosts)
        return HostHandle(self, name)

    @property
    def events(self) -> tuple[EventHandle, ...]:
        """Every event since the start, also those that are over."""
        emulation = self._running
        return tuple(EventHandle(self, id_) for id_ in self._ask(lambda: list(emulation.event_log.lives)))

    @property
    def requests(self) -> tuple[SentRequest, ...]:
        """What callers really sent since the start."""
        emulation = self._running
        return self._ask(lambda: tuple(map(msgspec.structs.replace, emulation.requests.sent)))

    @property
    def now(self) -> datetime:
        """The time by the emulator's clock."""
        return self._running.clock.now()

    def advance(self, step: Duration) -> None:
        """Move the clock on; all that falls due on the way is over and shown when this returns."""
        end = self.now + duration_of(step, "the step of the clock")
        while self._run(lambda emulation: emulation.advance_towards(end), f"advance the clock to {end:%H:%M:%S}"):
            pass

    def do(
        self,
        verb: Verb,
        *,
        vm: str = "",
        host: str = "",
        notice: Duration | None = None,
        duration: int | None = None,
        description: str | None = None,
    ) -> list[EventHandle]:
        """Run an operation on a VM or a host, by its verb; return the announced events."""
        asked = None if notice is None else duration_of(notice, "notice")
        check_whole("seconds", duration)
        lives = self._run(
            lambda emulation: emulation.do(
                verb, vm=vm, host=host, notice=asked, duration=duration, description=description
            ),
            f"{verb} {vm or host}",
        )
        return [EventHandle(self, life.id) for life in lives]

    def approve(self, event: str, by: str = "") -> None:
        """Approve an event as a VM, by default as the operator."""
        self._run(lambda emulation: emulation.approve(event, by), f"approve {event}")

    def cancel(self, event: str) -> None:
        """Cancel an event that has not started."""
        self._run(lambda emulation: emulation.cancel(event), f"cancel {event}")

    def document(self, vm: str = "", api_version: str = "") -> dict[str, object]:
        """Return the present document of a VM, by default the first one."""
        emulation = self._running
        if vm:
            self.vm(vm)
        if api_version and api_version not in BY_NAME:
            raise unknown("api-version", api_version, BY_NAME)
        shown = self._ask(lambda: emulation.document(vm, api_version))
        return msgspec.json.decode(shown, type=dict[str, object])

    def life_of(self, event: str) -> EventLife:
        emulation = self._running
        lives = emulation.event_log.lives
        if event.lower() not in lives:
            raise unknown("event", event, lives)
        return self._ask(lambda: copied(lives[event.lower()]))

    def add_fault(
        self,
        kind: str,
        *,
        probability: float = 1.0,
        vm: str = "",
        method: str = "",
        times: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Inject a fault from now on: ``add_fault("500", probability=0.2, vm="web-0")``."""
        emulation = self._running
        if vm:
            self.vm(vm)
        fault = Fault(fault_kind(kind), probability=probability, vm=vm, method=method, times=times, seconds=seconds)
        self._ask(lambda: emulation.faults.add(fault))

    def fail_next(self, status: int = 500, times: int = 1, vm: str = "") -> None:
        """Answer the next requests with this status, without the service."""
        self.add_fault(str(status), times=times, vm=vm)

    def clear_faults(self) -> None:
        emulation = self._running
        self._ask(emulation.faults.clear)

    @property
    def verdicts(self) -> list[Verdict]:
        """The present verdict of each expectation of the scenario."""
        player = self._player
        return self._ask(lambda: player.verdicts) if player else []

    @property
    def is_over(self) -> bool:
        """Whether the scenario is over: all steps done, all events over, all expectations decided."""
        player = self._player
        return self._ask(lambda: player.is_over) if player else False

    def wait_for(self, condition: Callable[[], bool], seconds: Duration = 5.0) -> bool:
        """Wait until the condition holds, at most ``seconds`` of the real clock; return whether it does.

        It is checked again after every request and every commit.
        """
        end = monotonic() + duration_of(seconds, "seconds").total_seconds()
        while True:
            seen = self._changes
            if condition():
                return True
            if not self._wait_for_change(seen, end - monotonic()):
                return condition()

    @property
    def _running(self) -> Emulation:
        if self._emulation is None:
            raise BadInput("the emulator is not running; start it, or use it in a with statement")
        return self._emulation

    def _run(self, work: Callable[[Emulation], Coroutine[None, None, _Result]], what: str) -> _Result:
        emulation = self._running
        assert self._thread is not None  # noqa: S101 - it runs as long as the emulation does

        async def run() -> _Result:
            result = await work(emulation)
            await emulation.settled()
            return result

        return self._thread.run(run(), what, self._patience + _GRACE)

    def _ask(self, question: Callable[[], _Result]) -> _Result:
        """Call ``question`` in the emulator's thread while nothing is under way."""

        async def ask(emulation: Emulation) -> _Result:
            await emulation.settled()
            return question()

        return self._run(ask, "read the state")

    def _tell(self) -> None:
        with self._change:
            self._changes += 1
            self._change.notify_all()

    def _wait_for_change(self, seen: int, seconds: float) -> bool:
        with self._change:
            return self._change.wait_for(lambda: self._changes != seen, max(seconds, 0.0))


def _fleet(given: DesiredFleet | Path | str | None, names: tuple[str, ...]) -> DesiredFleet:
    if given is None:
        return fleet_of(names or (USUAL_VM,))
    return given if isinstance(given, DesiredFleet) else parser.read_fleet_file(Path(given))
