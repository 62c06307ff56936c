"""Terminal UI of the emulator: VMs, documents, activity and keys."""

from collections.abc import Iterator
from typing import Self

import msgspec
from rich.console import Console, Group
from rich.highlighter import JSONHighlighter
from rich.live import Live
from rich.text import Text

from forewarn.cli.emulating.activity import ActivityLog
from forewarn.cli.emulating.controls import KEYS, Controls
from forewarn.cli.emulating.output import to_try
from forewarn.cli.times import relative
from forewarn.core.model import Event, EventStatus
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.expectations import ExpectationState
from forewarn.emulator.player import ScenarioPlayer
from forewarn.wire.azure_names import STATUSES, TYPES

_MOST_VMS = 6
_LEAST_ACTIVITY = 5
_LEGEND_KEYS = {"\t": "tab"}
_OUTCOMES = {ExpectationState.OPEN: "dim", ExpectationState.MET: "green", ExpectationState.MISSED: "bold red"}


class Screen:
    """Redraws the whole terminal."""

    def __init__(
        self, emulation: Emulation, player: ScenarioPlayer | None, activity: ActivityLog, controls: Controls
    ) -> None:
        self._emulation = emulation
        self._player = player
        self._activity = activity
        self._controls = controls
        self._console = Console(highlight=False, emoji=False, markup=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self) -> None:
        self._live.update(Group(*self.lines(self._console.height)), refresh=True)

    def lines(self, height: int) -> list[Text]:
        """Return the parts that fit the terminal's height: commands and expectations are dropped first."""
        title, vms, legend = self._title(), list(self._vms()), list(self._legend())
        to_type, expected = [*self._try(), Text()], [Text(), *self._expectations()] if self._player else []
        room = height - 7 - len(vms) - len(legend)
        needed = len(self._document(height)) + _LEAST_ACTIVITY
        if room - len(to_type) - len(expected) < needed:
            to_type = []
        if room - len(expected) < needed and self._player:
            expected = [Text(), self._summary()]
        room -= len(to_type) + len(expected)
        document = self._document(max(room - _LEAST_ACTIVITY, 2))
        activity = self._happened(max(room - len(document), 1))
        headline = Text(f"What {self._controls.chosen} is shown", style="bold")
        happens = Text("What happens", style="bold")
        lines = [title, Text(), *vms, Text(), *to_type, headline, *document, Text(), happens, *activity, *expected]
        lines += [Text(), *legend]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return lines

    def _title(self) -> Text:
        emulation = self._emulation
        title = Text("Forewarn" if self._player else "Forewarn emulator", style="bold")
        if self._player:
            title.append(f"  {self._player.scenario.title}", "bold cyan")
            if not self._player.has_begun:
                title.append("  begins with the first request", "yellow")
                return title  # the rest would not fit, and no time is passing yet
        if emulation.hurry != 1:
            title.append(f"  {emulation.hurry:g} times as fast", "dim")
        title.append(f"  {emulation.clock.now():%H:%M:%S} UTC", "dim")
        return title

    def _vms(self) -> Iterator[Text]:
        emulation, chosen = self._emulation, self._controls.chosen
        names = list(emulation.vms)
        first = max(0, names.index(chosen) - _MOST_VMS + 1)
        width = max(map(len, names))
        for name in names[first : first + _MOST_VMS]:
            line = Text("> " if name == chosen else "  ", style="bold" if name == chosen else "")
            line.append(f"{name:<{width}}  {emulation.url(name)}  ")
            line.append(*self._state(name))
            yield line
        if len(names) > _MOST_VMS:
            yield Text(f"  {len(names)} VMs in all", style="dim")

    def _state(self, name: str) -> tuple[str, str]:
        vm = self._emulation.node.replica.fleet.vms.get(name)
        if vm is None:
            return "deleted", "dim"
        if vm.deallocated:
            return "deallocated", "dim"
        asked = next((sent for sent in reversed(self._emulation.requests.sent) if sent.vm == name), None)
        if asked is None:
            return "has not asked", "dim"
        return f"asked {relative(asked.at, self._emulation.clock.now())}", "green"

    def _try(self) -> Iterator[Text]:
        for line in to_try(self._emulation, self._controls.chosen):
            yield Text(line, style="dim")

    def _document(self, room: int) -> list[Text]:
        """Return the document in full if it fits, else a line for each event."""
        vm = self._emulation.node.replica.fleet.vms.get(self._controls.chosen)
        if vm is None or vm.deallocated:
            return [Text(f"403: it is {'deleted' if vm is None else 'deallocated'}", style="dim")]
        shown = self._emulation.document(self._controls.chosen)
        pretty = msgspec.json.format(shown, indent=2).decode().splitlines()
        if len(pretty) <= room:
            return [JSONHighlighter()(Text(line)) for line in pretty]
        group = self._emulation.setup.fleet.vms[self._controls.chosen].group
        events = self._emulation.node.replica.fleet.events_of(group)
        incarnation = self._emulation.node.replica.fleet.groups[group].incarnation
        return [Text(f"incarnation {incarnation}"), *(self._event(event) for event in events[: room - 1])]

    def _event(self, event: Event) -> Text:
        line = Text(f"{TYPES[event.type]:<9}  ")
        is_scheduled = event.status is EventStatus.SCHEDULED
        line.append(f"{STATUSES[event.status]:<9}  ", "yellow" if is_scheduled else "bold magenta")
        when = relative(event.not_before, self._emulation.clock.now()) if is_scheduled else ""
        return line.append(f"{when:<10}  {', '.join(event.resources)}")

    def _happened(self, room: int) -> list[Text]:
        shown = list(self._activity.lines)[-room:]
        return [
            Text(f"{line.at:%H:%M:%S}  ", style="dim").append(
                line.text + (f" ({line.count} times)" if line.count > 1 else ""), line.style
            )
            for line in shown
        ] or [Text("nothing yet", style="dim")]

    def _expectations(self) -> Iterator[Text]:
        for verdict in self._player.verdicts if self._player else ():
            yield Text(f"{verdict.outcome:<6}  ", style=_OUTCOMES[verdict.outcome]).append(verdict.claim)

    def _summary(self) -> Text:
        outcomes = [verdict.outcome for verdict in self._player.verdicts] if self._player else []
        line = Text("Expected: ", style="dim")
        for outcome in ExpectationState:
            if count := outcomes.count(outcome):
                line.append(f"{count} {outcome}  ", _OUTCOMES[outcome])
        return line

    def _legend(self) -> Iterator[Text]:
        if self._controls.message:
            yield Text(self._controls.message, style="yellow")
        line = Text()
        for key, what in KEYS.items():
            shown = f"{_LEGEND_KEYS.get(key, key)} {what.label}"
            if line and line.cell_len + len(shown) + 3 > self._console.width:
                yield line
                line = Text()
            line.append("   " if line else "").append(_LEGEND_KEYS.get(key, key), "bold").append(f" {what.label}")
        yield line
