"""How the demo is shown: at a terminal as a live picture under the claims, elsewhere as plain lines."""

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.guest_observer import GuestObservations

_STYLES = {
    "booting": "yellow",
    "running": "green",
    "shutting down": "yellow",
    "frozen": "bold cyan",
    "moving": "bold magenta",
    "ended": "dim",
}
_WIDE = 118
"""Columns from which on the journal stands beside the guests."""
_MOST_LINES = 9
_OTHER_LINES = 15
"""Lines of a small window that are not the journal's."""
_READING = 1.5
"""Seconds between two scenes, for whoever looks on."""


class View:
    """Shows guests, journal and claims, until it is left."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._is_live = _is_live(self._console)
        if not self._is_live:
            self._console = Console(file=self._console.file, force_terminal=False, color_system=None, highlight=False)
        self._began = time.monotonic()
        self._scene = "Forewarn with real guests"
        self._guests: Sequence[GuestObservations] = ()
        self._is_over = False
        self._recorded: deque[tuple[float, str]] = deque(maxlen=_MOST_LINES)
        self._open = ExitStack()

    def show(self, guests: Sequence[GuestObservations]) -> None:
        """Show these guests from now on."""
        self._guests = guests
        self._print(Text(self._scene, style="bold"))
        if self._is_live:
            live = Live(
                get_renderable=self._picture,
                console=self._console,
                refresh_per_second=8,
                transient=True,
                screen=False,
            )
            self._open.enter_context(live)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        self._print(Text(f"  {text}", style="dim"))

    def begin_scene(self, number: int, count: int, title: str, text: str) -> None:
        self._scene = f"{number} of {count}: {title}"
        self._print(Text.assemble("\n", (f"{number} {title}", "bold"), (f"  {text}", "dim")))

    def begin_stay(self, data: Path) -> None:
        """Say what to type, now that the guests are there to be played with."""
        self._scene = "Yours, until Ctrl-C"
        command = Path(sys.executable).with_name("forewarn")
        lines = (
            "",
            "Three guests are yours, until Ctrl-C. In another terminal, as root:",
            f"  export FOREWARN_DATA={data}",
            f"  {command} vm restart web-0",
            f"  {command} rollout start kernel --command reboot --all",
            f"  {command} event show last",
        )
        self._print(Text("\n".join(lines)))

    def tell_claim(self, text: str, *, holds: bool) -> None:
        mark, style = ("✓", "green") if holds else ("✗", "bold red")
        self._print(Text.assemble(("  " + mark, style), f" {text}"))

    def tell_heard(self, guest: GuestObservations, words: str) -> None:
        if not self._is_live and not self._is_over:
            self._print(Text(f"    {self.elapsed:5.1f} s  {guest.name} says: {words}"))

    def tell_recorded(self, text: str) -> None:
        self._recorded.append((self.elapsed, text))
        if not self._is_live and not self._is_over:
            self._print(Text(f"    {self.elapsed:5.1f} s  journal: {text}"))

    def end(self, text: str, *, is_good: bool) -> None:
        """Say how it ended, under everything else."""
        self._is_over = True
        self._open.close()
        self._print(Text(f"\n{text}", style="bold green" if is_good else "bold red"))

    def add(self, text: str) -> None:
        """Say something more, at the end."""
        self._print(Text(text))

    def pause(self) -> None:
        if self._is_live:
            time.sleep(_READING)

    def _print(self, text: Text) -> None:
        try:
            self._console.print(text, soft_wrap=not self._is_live)
        except (OSError, SystemExit):  # rich leaves the program when a pipe is closed
            # Nobody looks on any more: that ends the demo, whichever thread notices it.
            signal.raise_signal(signal.SIGHUP)

    def _picture(self) -> RenderableType:
        head = Text.assemble("\n", (self._scene, "bold"), (f"  {self.elapsed:.0f} s", "dim"))
        if self._console.width < _WIDE:
            return Group(head, self._table(), self._journal())
        beside = Table.grid(expand=True)
        beside.add_column(ratio=5)
        beside.add_column(ratio=4)
        beside.add_row(self._table(), self._journal())
        return Group(head, beside)

    def _table(self) -> RenderableType:
        table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
        for heading in ("guest", "on", "domain", "boot", "its clock", "state"):
            table.add_column(heading, no_wrap=True, justify="right" if heading == "its clock" else "left")
        table.add_column("its last words", ratio=1, no_wrap=True)
        for guest in self._guests:
            is_gone = guest.state == "ended"
            table.add_row(
                Text(guest.name, style="dim" if is_gone else "bold"),
                guest.host,
                str(guest.update_domain),
                guest.boot[:4] or "-",
                f"{guest.samples[-1].uptime:.1f} s" if guest.samples else "-",
                Text(guest.state, style=_STYLES[guest.state]),
                Text(guest.words, style="dim" if is_gone else ""),
            )
        return Panel(table, title="guests: QEMU without KVM, Debian's kernel", title_align="left", border_style="dim")

    def _journal(self) -> RenderableType:
        count = max(3, min(_MOST_LINES, self._console.height - _OTHER_LINES))
        last = list(self._recorded)[-count:]
        rows = [Text(f"{at:5.1f} s  {text}", no_wrap=True, overflow="ellipsis") for at, text in last]
        rows += [Text()] * (count - len(rows))
        return Panel(Group(*rows), title="journal", title_align="left", border_style="dim")


def _is_live(console: Console) -> bool:
    """Return whether somebody looks on who wants to see things move."""
    is_plain = any(os.environ.get(name) for name in ("NO_COLOR", "CI"))
    return console.is_terminal and not console.is_dumb_terminal and not is_plain
