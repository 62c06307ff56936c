"""``--watch``: prints a list or an event again whenever the fleet changes, until it is interrupted.

Changes come from the service's change stream. At a terminal the screen is cleared in between, and times are brought
up to date; elsewhere each state is printed below the one before.
"""

import sys
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

import click

from forewarn.cli.logins import connect_chosen
from forewarn.cli.output import is_watched
from forewarn.core.errors import Unavailable

_Command = TypeVar("_Command", bound=Callable[..., object])
SETTLE = 0.3
"""Seconds in which further changes are waited for, so that those of one operation are printed together."""
REFRESH = 5.0
"""Seconds after which times at a terminal are out of date."""
_END = ""


def watch_option(command: _Command) -> _Command:
    help_text = "Print it again whenever something changes, until Ctrl-C."
    return click.option("--watch", "-w", "is_watching", is_flag=True, help=help_text)(command)


def watch(show: Callable[[], bool | None], *, is_watching: bool) -> None:
    """Call ``show`` once, or again after every change until it returns True or the stream ends."""
    if not is_watching:
        show()
        return
    news: SimpleQueue[str] = SimpleQueue()

    def follow() -> None:
        for kind in kinds:
            news.put(kind)
        news.put(_END)

    with connect_chosen(click.get_current_context()) as follower:  # a connection of its own: the stream occupies it
        kinds = follower.change_kinds()
        next(kinds)  # the stream is open: all later changes are seen
        thread = Thread(target=follow, name="changes")
        thread.start()
        try:
            is_over = _show_changes(show, news)
        finally:
            follower.close()  # this ends the thread
            thread.join()
    if is_over:
        raise Unavailable("the service closed the connection; it is not watched any more")


def _show_changes(show: Callable[[], bool | None], news: "SimpleQueue[str]") -> bool:
    """Show it after every change; return whether it ended because no more changes come."""
    is_at_terminal = is_watched(sys.stdout)
    while True:
        if is_at_terminal:
            click.clear()
        if show():
            return False
        sys.stdout.flush()
        if _is_over(news, REFRESH if is_at_terminal else None):
            return True


def _is_over(news: "SimpleQueue[str]", longest: float | None) -> bool:
    """Wait for changes, or until it has taken long enough; tell whether there will be no more."""
    try:
        kind = news.get(timeout=longest)
        while kind != _END:
            kind = news.get(timeout=SETTLE)
    except Empty:
        return False
    return True
