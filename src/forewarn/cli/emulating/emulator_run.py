"""Runs the emulator until its scenario is over or it is interrupted."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import msgspec

from forewarn.cli.emulating.activity import ActivityLog
from forewarn.cli.emulating.controls import Controls
from forewarn.cli.emulating.output import print_activity, print_beginning, print_line, print_listening
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.expectations import ExpectationState, Verdict
from forewarn.emulator.player import ScenarioPlayer
from forewarn.emulator.scenario import Scenario

_DRAW_EVERY = 0.25


class ScenarioResult(msgspec.Struct, frozen=True):
    """Result of a scenario."""

    scenario: str
    is_over: bool
    verdicts: list[Verdict]
    seconds: float

    @property
    def is_good(self) -> bool:
        return self.is_over and all(verdict.outcome is ExpectationState.MET for verdict in self.verdicts)


class EmulatorRun:
    """One run of the emulator: at a terminal, on a pipe, or as JSON lines."""

    def __init__(
        self, emulation: Emulation, scenario: Scenario | None, *, patience: float, stays: bool, as_json: bool
    ) -> None:
        self._emulation = emulation
        self._player = ScenarioPlayer(emulation, scenario) if scenario else None
        self._patience = patience
        self._stays = stays
        self._as_json = as_json
        self._is_interactive = not as_json and sys.stdin.isatty() and sys.stdout.isatty()
        tell = print_activity if as_json else print_line
        self._activity = ActivityLog() if self._is_interactive else ActivityLog(tell)
        self._controls = Controls(emulation)
        self._changed = asyncio.Event()
        self._began = monotonic()

    async def run(self) -> ScenarioResult:
        emulation = self._emulation
        emulation.watch(self._changed.set)
        emulation.watch_requests(self._activity.note)
        await emulation.start()
        try:
            if self._as_json:
                name = self._player.scenario.name if self._player else ""
                print_listening({vm: emulation.url(vm) for vm in emulation.vms}, name)
            emulation.node.replica.subscribe(self._activity)
            if self._is_interactive:
                await self._interact()
            else:
                if not self._as_json:
                    print_beginning(emulation, self._player)
                await self._follow(lambda: None)
            return self._result()
        finally:
            await emulation.stop()

    async def _interact(self) -> None:
        from forewarn.cli.emulating.keyboard import listening
        from forewarn.cli.emulating.screen import Screen

        loop = asyncio.get_running_loop()
        pressed: asyncio.Queue[str] = asyncio.Queue()

        async def obey() -> None:
            while not self._controls.is_leaving:
                await self._controls.press(await pressed.get())
                self._changed.set()

        def press(key: str) -> None:
            loop.call_soon_threadsafe(pressed.put_nowait, key)

        with Screen(self._emulation, self._player, self._activity, self._controls) as screen, listening(press):
            obeying = asyncio.create_task(obey())
            try:
                await self._follow(screen.draw)
            finally:
                obeying.cancel()
                await asyncio.gather(obeying, return_exceptions=True)

    async def _follow(self, draw: Callable[[], None]) -> None:
        """Begin the scenario when it is due, and draw changes, until it is over."""
        while not self._controls.is_leaving:
            player = self._player
            if player and not player.has_begun and (self._emulation.requests.sent or self._is_impatient):
                player.begin()
            if player and player.is_over and not self._stays:
                return
            draw()
            self._changed.clear()
            with suppress(TimeoutError):
                # Not wait_for: until Python 3.12 it loses a cancellation at the same moment as the change.
                async with asyncio.timeout(_DRAW_EVERY):
                    await self._changed.wait()

    @property
    def _is_impatient(self) -> bool:
        return monotonic() - self._began >= self._patience

    def _result(self) -> ScenarioResult:
        if self._player is None:
            return ScenarioResult("", is_over=True, verdicts=[], seconds=monotonic() - self._began)
        player = self._player
        return ScenarioResult(player.scenario.name, player.is_over, player.verdicts, monotonic() - self._began)
