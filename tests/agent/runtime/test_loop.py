"""The agent as a whole, in this process: against the emulated service, with handlers that do what a test says."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from forewarn import plugin_loader
from forewarn.agent.decision.facts import AgentFact
from forewarn.agent.decision.rules import ApprovalMode
from forewarn.agent.handler import HandlerDone, HandlerFailed, HandlerOutcome, HandlerResult, HandlerUnknown, Task
from forewarn.agent.observation.status import ApprovalState, StepState
from forewarn.agent.runtime import assembly
from forewarn.agent.runtime.loop import Agent
from forewarn.agent.settings import AgentSettings, load
from forewarn.agent.subscriber import AgentSocket
from forewarn.client.async_client import AsyncClient
from forewarn.client.errors import NoAnswer, NotKnown
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.model import EventStatus
from forewarn.emulator import Emulator
from forewarn.emulator.handles import EventHandle
from forewarn.wire.document import ScheduledEvent

pytestmark = pytest.mark.end_to_end
PATIENCE = 60.0

Story = Callable[[Agent], Awaitable[None]]


class Marking:
    """A handler that notes what it is asked, and answers as it is told to."""

    repeats = True
    shared = False
    calls: list[str]
    answer: Callable[[Task], HandlerResult]

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> "Marking":
        return cls()

    def do(self, task: Task) -> HandlerResult:
        Marking.calls.append(f"do {task.event.type}")
        return Marking.answer(task)

    def undo(self, task: Task) -> HandlerResult:
        Marking.calls.append(f"undo {task.event.type}")
        return HandlerDone()

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerUnknown()

    def close(self) -> None:
        Marking.calls.append("close")


@pytest.fixture(autouse=True)
def marking(monkeypatch: pytest.MonkeyPatch) -> None:
    Marking.calls = []
    Marking.answer = lambda _: HandlerDone(detail="well done")
    monkeypatch.setattr(plugin_loader, "load", lambda *_: Marking)


def settings(directory: Path, emulator: Emulator, more: str = "") -> AgentSettings:
    path = directory / "agent.toml"
    path.write_text(f"""
url = "{emulator.url}"
state = "{directory / "state"}"
socket = "{directory / "socket"}"
http = "off"
{more}
[[rules]]
handlers = ["mark"]
[handlers.mark]
kind = "marking"
""")
    return load({}, {}, path)


def play(of: AgentSettings, story: Story, make_agent: Callable[..., Agent] = Agent) -> None:
    """Run an agent until the story is told."""
    result: list[asyncio.Task[None]] = []

    def ready(agent: Agent) -> None:
        async def tell() -> None:
            try:
                async with asyncio.timeout(PATIENCE):
                    await story(agent)
            finally:
                agent.stop()

        result.append(asyncio.get_running_loop().create_task(tell()))

    assembly.run(of, ready, make_agent)
    result[0].result()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - an agent tells its status only when it is asked
        await asyncio.sleep(0.01)


async def announced(agent: Agent, emulator: Emulator) -> EventHandle:
    """Announce a reboot once the agent listens."""
    await until(lambda: agent.status().incarnation is not None)
    return await asyncio.to_thread(emulator.vm("web-0").reboot)


async def over(emulator: Emulator, agent: Agent, event: EventHandle) -> None:
    await until(lambda: event.status is EventStatus.STARTED)
    await asyncio.to_thread(emulator.advance, "30m")
    await until(lambda: not agent.status().events)


def test_an_event_is_prepared_for_approved_and_put_back(tmp_path: Path) -> None:
    """Under the name that the endpoint tells; handlers are let go of at the end."""
    with Emulator("web-0", clock="system") as emulator:

        async def story(agent: Agent) -> None:
            event = await announced(agent, emulator)
            await over(emulator, agent, event)
            assert event.approved_by == ("web-0",)

        play(settings(tmp_path, emulator), story)

    assert Marking.calls == ["do reboot", "undo reboot", "close"]


def test_a_listener_holds_the_approval(tmp_path: Path) -> None:
    """It is told of the event before anything follows from it, and the approval waits until it is ready."""
    with Emulator("web-0", clock="system") as emulator:
        of = settings(tmp_path, emulator)
        assert of.socket
        socket = AgentSocket(of.socket)
        heard: list[str] = []
        may_release = threading.Event()

        def listen() -> None:
            with socket:
                socket.hold("database", "60s")
                for change in socket.changes():
                    heard.append(change.change)
                    if change.change == "new":
                        may_release.wait(PATIENCE)
                        socket.ready(change)
                    elif change.change == "gone":
                        return

        async def story(agent: Agent) -> None:
            await until(lambda: agent.status().incarnation is not None)
            listening = asyncio.create_task(asyncio.to_thread(listen))
            await until(lambda: agent.status().listeners == 1)
            event = await announced(agent, emulator)
            await until(lambda: bool(agent.status().events))
            await until(lambda: agent.status().events[0].steps[0].state is StepState.DONE)
            shown = agent.status().events[0]
            assert (shown.approval, shown.holds[0].holder) == (ApprovalState.HELD, "database")
            assert event.status is EventStatus.SCHEDULED
            may_release.set()
            await over(emulator, agent, event)
            await listening

        play(of, story)

    assert heard[0] == "new"
    assert heard[-1] == "gone"


def test_the_status_says_how_far_everything_has_come(tmp_path: Path) -> None:
    """Each handler with its state and what it said, and why nothing is approved."""
    Marking.answer = lambda _: HandlerFailed("not today")
    with Emulator("web-0", clock="system") as emulator:

        async def story(agent: Agent) -> None:
            await announced(agent, emulator)
            await until(lambda: bool(agent.status().events))
            await until(lambda: agent.status().events[0].steps[0].state is StepState.FAILED)
            shown = agent.status().events[0]
            assert shown.steps[0].detail == "not today"
            assert shown.concerns_me
            assert agent.status().vm == "web-0"
            assert agent.status().endpoint.startswith(emulator.url)

        play(settings(tmp_path, emulator, more='approver = "leader"'), story)


def test_a_dry_run_does_nothing_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No handler is called, nothing is approved, no file is written."""
    caplog.set_level(logging.INFO)
    with Emulator("web-0", clock="system") as emulator:
        of = settings(tmp_path, emulator, more="dry_run = true")

        async def story(agent: Agent) -> None:
            event = await announced(agent, emulator)
            await until(lambda: "dry run: would approve" in caplog.text)
            assert event.status is EventStatus.SCHEDULED

        play(of, story)

    assert "dry run: would call the handler" in caplog.text
    assert "handler=mark direction=do" in caplog.text
    assert Marking.calls == ["close"]
    assert not (tmp_path / "state").exists()


def test_an_approval_that_does_not_arrive_is_sent_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The endpoint fails for a while; the event is approved all the same."""
    with Emulator("web-0", clock="system") as emulator:

        def fail(_: Task) -> HandlerResult:
            emulator.fail_next(500, times=1)
            return HandlerDone()

        Marking.answer = fail

        async def story(agent: Agent) -> None:
            event = await announced(agent, emulator)
            await over(emulator, agent, event)

        play(settings(tmp_path, emulator), story)

    assert "answers 500" in caplog.text


@pytest.mark.parametrize("error", [NotKnown, NoAnswer])
def test_an_approval_that_is_not_taken_is_sent_again(
    error: type[ForewarnError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing changes in the document, and nothing else tells that it would be taken now."""
    answers = [error("come back later")]
    approve = AsyncClient.approve

    async def approve_later(client: AsyncClient, *events: ScheduledEvent | str) -> None:
        if answers:
            raise answers.pop()
        await approve(client, *events)

    monkeypatch.setattr(AsyncClient, "approve", approve_later)
    with Emulator("web-0", clock="system") as emulator:

        async def story(agent: Agent) -> None:
            event = await announced(agent, emulator)
            await until(lambda: any("come back later" in view.approval_detail for view in agent.status().events))
            await over(emulator, agent, event)

        play(settings(tmp_path, emulator), story)

    assert caplog.text.count("not approved yet") == 1


def test_a_date_that_events_contradict_does_not_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By Date the event would be over before it was announced: this VM's clock counts, and it is told once."""
    with Emulator("web-0", clock="system") as emulator:
        emulator.add_fault("skewed-date", seconds=3_600)

        async def story(agent: Agent) -> None:
            event = await announced(agent, emulator)
            await until(lambda: event.status is EventStatus.STARTED)
            assert "behind the endpoint's, but NotBefore of a new event" in agent.status().clock_trouble
            assert agent.status().clock_offset == 0

        play(settings(tmp_path, emulator), story)

    assert caplog.text.count("the endpoint's clock is used") == 1
    assert caplog.text.count("contradicts the endpoint's Date") == 1


def test_a_name_that_is_not_told_is_soon_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can be done before it is known, and an eviction leaves thirty seconds; it is logged once."""
    answers = [NotKnown("who are you"), NotKnown("who are you")]
    own_name = AsyncClient.own_name

    async def own_name_later(client: AsyncClient) -> str:
        if answers:
            raise answers.pop()
        return await own_name(client)

    monkeypatch.setattr(AsyncClient, "own_name", own_name_later)
    with Emulator("web-0", clock="system") as emulator:

        async def story(agent: Agent) -> None:
            await until(lambda: bool(agent.status().vm))

        play(settings(tmp_path, emulator), story, partial(Agent, retry_after=0.1))

    assert caplog.text.count('reason="who are you') == 1


def test_nothing_is_done_that_cannot_be_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the memory cannot be written no handler is called; it is told once, and made good when it can."""
    caplog.set_level(logging.ERROR)
    with Emulator("web-0", clock="system") as emulator:
        of = settings(tmp_path, emulator)

        async def story(agent: Agent) -> None:
            await until(lambda: agent.status().incarnation is not None)
            memory = agent._memory
            append, trouble = memory.append, Unavailable("the disk is full")

            def fail(facts: Iterable[AgentFact]) -> None:  # noqa: ARG001 - as it is called
                raise trouble

            memory.append = fail  # type: ignore[method-assign]
            event = await announced(agent, emulator)
            await until(lambda: bool(agent.status().memory_trouble))
            await asyncio.sleep(0.1)
            assert Marking.calls == []
            memory.append = append  # type: ignore[method-assign]
            await over(emulator, agent, event)

        play(of, story)

    assert caplog.text.count("the disk is full") == 1


def test_two_agents_do_not_share_a_memory(tmp_path: Path) -> None:
    """The second names the first, and what to do."""
    with Emulator("web-0", clock="system") as emulator:
        of = settings(tmp_path, emulator)

        async def story(agent: Agent) -> None:
            await until(lambda: agent.status().incarnation is not None)
            with pytest.raises(Unavailable, match="is in use by the process with id"):
                assembly.run(of)

        play(of, story)


def test_a_mistake_of_the_agent_itself_ends_it_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that whoever started it hears that it failed, and starts it again."""

    async def fail(self: Agent) -> None:  # noqa: ARG001 - as it is called
        raise LookupError("nobody thought of that")

    monkeypatch.setattr(Agent, "_listen", fail)
    with (
        Emulator("web-0", clock="system") as emulator,
        pytest.raises(Unavailable, match=r"because of an internal error .*nobody thought of that.*; see its log"),
    ):
        assembly.run(settings(tmp_path, emulator))


def test_how_an_event_ended_is_told_as_far_as_the_vm_knows(tmp_path: Path) -> None:
    """A reboot that nobody saw start has happened, if the VM was booted meanwhile."""
    endings: list[str | None] = []
    with Emulator("web-0", clock="system") as emulator:
        of = settings(tmp_path, emulator)
        Marking.answer = lambda _: HandlerFailed("not ready")
        of = msgspec.structs.replace(
            of, rules=tuple(msgspec.structs.replace(rule, approval=ApprovalMode.NEVER) for rule in of.rules)
        )

        async def before(agent: Agent) -> None:
            await announced(agent, emulator)
            await until(lambda: "do reboot" in Marking.calls)

        async def after(agent: Agent) -> None:
            agent.on_change = lambda change: endings.append(change.ending)
            await until(lambda: bool(endings))

        play(of, before, partial(Agent, boot="one"))
        emulator.advance("1h")
        play(of, after, partial(Agent, boot="two"))

    assert endings == ["completed"]


def test_a_dry_run_does_not_ask_the_coordinator(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may do anything when it is asked."""
    caplog.set_level(logging.INFO)
    with Emulator("web-0", clock="system") as emulator:
        more = f'dry_run = true\napprover = "coordinator"\ncoordinator = ["touch", "{tmp_path / "asked"}"]'

        async def story(agent: Agent) -> None:
            await announced(agent, emulator)
            await until(lambda: "dry run: would approve" in caplog.text)

        play(settings(tmp_path, emulator, more), story)

    assert "dry run: would ask the coordinator" in caplog.text
    assert not (tmp_path / "asked").exists()
