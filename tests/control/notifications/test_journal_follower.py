"""Following the journal: the same is told whichever way it is read."""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import TypeVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.clocks import ManualClock
from forewarn.control.notifications.journal_follower import JournalFollower, RecentEntries
from forewarn.control.notifications.notification import Notification
from forewarn.core.facts import Entry
from forewarn.journal.memory import MemoryJournal
from forewarn.node.node import Node
from tests.node.harness import MINUTE, NodeHarness, run

_Answer = TypeVar("_Answer")


class Reader:
    """As much of a node as a follower needs."""

    clock = ManualClock()

    @property
    def replica(self) -> "Reader":
        return self

    async def read(self, question: Callable[[], _Answer]) -> _Answer:
        return question()


@cache
def happenings() -> tuple[MemoryJournal, list[Entry]]:
    """Let much happen: announcements, approvals, starts, ends of several kinds, and things about no event."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.operate_host("freeze", "h1")
        first = await harness.operate("restart", "web-0")
        await harness.operate("redeploy", "web-1")
        await harness.approve(first)
        harness.clock.advance(20 * MINUTE)
        await harness.operate("evict", "web-0")
        await harness.operate("delete", "web-2")

    run(story, journal)
    return journal, list(journal.entries())


def following(position: int, kept: int = 99, **sizes: int) -> JournalFollower:
    journal, entries = happenings()
    recent_entries = RecentEntries(kept)
    recent_entries.extend(entries)
    return JournalFollower(cast("Node", Reader()), journal, recent_entries, {}, position, **sizes)


def everything(follower: JournalFollower) -> list[Notification]:
    async def read() -> list[Notification]:
        found: list[Notification] = []
        while follower.is_behind:
            found += await follower.read()
        return found

    return asyncio.run(read())


@given(position=st.integers(0, 8), kept=st.integers(1, 9), batch=st.integers(1, 9), remembered=st.integers(1, 4))
def test_what_is_told_does_not_depend_on_how_it_is_read(
    position: int, kept: int, batch: int, remembered: int
) -> None:
    """From the journal or from memory, in whatever pieces, from the beginning or from a place within."""
    expected = [message for message in everything(following(0)) if message.revision > position]
    follower = following(position, kept, batch=batch, remembered=remembered)
    forked = follower.fork()

    assert everything(follower) == expected
    assert everything(forked) == expected

    assert len(everything(following(0))) > 8
    assert follower.position == len(happenings()[1])


def test_entries_about_no_event_are_not_held() -> None:
    """A declaration of a million VMs does not stay in memory for the sake of those who are told."""
    _, entries = happenings()
    recent_entries = RecentEntries()
    recent_entries.extend(entries)
    held, position = recent_entries.after(0, 99)

    assert position == len(entries)
    assert len(held) == len(entries) - 2


@pytest.mark.parametrize(("position", "after"), [(4, 6), (3, 3), (5, 5)])
def test_only_whoever_stands_just_before_passes_by(position: int, after: int) -> None:
    """Everybody else still has to read what comes first."""
    follower = following(position)
    follower.skip_entries(4, 6)

    assert follower.position == after
