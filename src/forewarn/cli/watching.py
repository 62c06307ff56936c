"""``--watch``: prints a list, an event or a rollout again whenever the fleet changes, until it is interrupted.

Changes come from the service's change stream. At a terminal the screen is cleared in between, and times are brought
up to date; elsewhere each state is printed below the one before. When the service stops answering, that is said once,
and what it says is printed again as soon as it answers.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread
from time import sleep
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
RETRY = 1.0
"""Seconds after which a service that does not answer is asked again."""
_END = ""


def watch_option(command: _Command) -> _Command:
    help_text = "Print it again whenever something changes, until Ctrl-C."
    return click.option("--watch", "-w", "is_watching", is_flag=True, help=help_text)(command)


def watch(show: Callable[[], bool | None], *, is_watching: bool) -> None:
    """Call ``show`` once, or again after every change until it returns True.

    A service that has answered once may be away for any time; one that never answered is an error.
    """
    if not is_watching:
        show()
        return
    has_answered = is_lost = False
    while True:
        try:
            with _changes() as news:
                if is_lost:
                    click.echo("forewarn: the service answers again", err=True)
                has_answered, is_lost = True, False
                if _show_changes(show, news):
                    return
                reason = "the service closed the connection"
        except Unavailable as error:
            if not has_answered:
                raise
            reason, _, _ = str(error).partition(";")
        if not is_lost:
            click.echo(f"forewarn: {reason}; trying again until Ctrl-C", err=True)
        is_lost = True
        sleep(RETRY)


@contextmanager
def _changes() -> "Iterator[SimpleQueue[str]]":
    """Yield the changes as they come, on a connection of their own: the stream occupies it."""
    news: SimpleQueue[str] = SimpleQueue()

    def follow() -> None:
        for kind in kinds:
            news.put(kind)
        news.put(_END)

    with connect_chosen(click.get_current_context()) as follower:
        kinds = follower.change_kinds()
        next(kinds)  # the stream is open: all later changes are seen
        thread = Thread(target=follow, name="changes")
        thread.start()
        try:
            yield news
        finally:
            follower.end()  # this ends the thread
            thread.join()


def _show_changes(show: Callable[[], bool | None], news: "SimpleQueue[str]") -> bool:
    """Show it after every change; return whether it needs no more watching, or False when no more changes come."""
    is_at_terminal = is_watched(sys.stdout)
    while True:
        if is_at_terminal:
            click.clear()
        if show():
            return True
        sys.stdout.flush()
        if _is_over(news, REFRESH if is_at_terminal else None):
            return False


def _is_over(news: "SimpleQueue[str]", longest: float | None) -> bool:
    """Wait for changes, or until it has taken long enough; tell whether there will be no more."""
    try:
        kind = news.get(timeout=longest)
        while kind != _END:
            kind = news.get(timeout=SETTLE)
    except Empty:
        return False
    return True
