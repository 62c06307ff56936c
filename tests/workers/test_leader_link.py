"""What a worker knows of its leader: its answers, its age and its end."""

import asyncio

import pytest

from forewarn.core.commands import Enrol
from forewarn.core.errors import OutcomeUnknown, Refused, Unavailable
from forewarn.core.model import Caller, CallerKind
from forewarn.workers.leader_link import LeaderLink
from forewarn.workers.messages import Answer, Message, Submit

COMMAND = Enrol(id="c", by=Caller(CallerKind.VM, "web-0"), group="web", vm="web-0")


class LinkHarness:
    """A link with a leader that is well until its time is set back."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.now = 100.0
        self.alive_at = 100.0
        self.link = LeaderLink(self.sent.append, lambda: self.now, lambda: self.alive_at)


def test_each_answer_reaches_the_command_that_it_is_for() -> None:
    """Done, or refused with the leader's reason; an answer that nobody waits for is dropped."""

    async def story() -> None:
        harness = LinkHarness()
        first, second = harness.link.submit(COMMAND), harness.link.submit(COMMAND)
        assert harness.sent == [Submit(1, COMMAND), Submit(2, COMMAND)]
        harness.link.take(Answer(2, "Refused", "no such event"))
        harness.link.take(Answer(1))
        harness.link.take(Answer(1))
        await first
        with pytest.raises(Refused, match="no such event"):
            await second

    asyncio.run(story())


def test_the_end_of_the_leader_leaves_what_was_sent_unknown() -> None:
    """It may have been recorded; what comes later is not sent at all."""

    async def story() -> None:
        harness = LinkHarness()
        sent = harness.link.submit(COMMAND)
        harness.link.lose()
        with pytest.raises(OutcomeUnknown):
            await sent
        with pytest.raises(Unavailable):
            await harness.link.submit(COMMAND)
        assert len(harness.sent) == 1
        assert (harness.link.is_lost, harness.link.is_there) == (True, False)

    asyncio.run(story())


def test_a_leader_that_gives_no_sign_of_life_takes_no_commands() -> None:
    """Its age is told, and it is there again with its next sign."""
    harness = LinkHarness()
    assert harness.link.is_there
    harness.now = 106.0
    assert (harness.link.age, harness.link.is_there) == (6.0, False)
    harness.alive_at = 105.5
    assert (harness.link.age, harness.link.is_there) == (0.5, True)


def test_a_leader_that_is_stopped_keeps_no_command_waiting() -> None:
    """What it was passed may have been recorded; a late answer is dropped."""

    async def story() -> None:
        harness = LinkHarness()
        sent = harness.link.submit(COMMAND)
        harness.now = 104.0
        harness.link.give_up()
        assert not sent.done()
        harness.now = 105.0
        harness.link.give_up()
        with pytest.raises(OutcomeUnknown, match="did not answer in time"):
            await sent
        harness.link.take(Answer(1))

    asyncio.run(story())
