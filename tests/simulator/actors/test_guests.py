"""Guests of a simulation: what each kind sends, and what becomes of it when it is killed, stopped or damaged."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn import randomness
from forewarn.agent.decision.facts import EventForgotten
from forewarn.agent.handler import Direction, HandlerDone, Task
from forewarn.core.model import EventStatus
from forewarn.simulator.actors.agent_guest import SimulatedHandler
from forewarn.simulator.actors.guests import KINDS
from forewarn.simulator.environment.loop import SimulatedProcess
from forewarn.simulator.exchanges import Exchange, VmExchange
from forewarn.wire.document import ScheduledEvent
from tests.simulator.guest_harness import GuestHarnesses


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuestHarnesses]:
    monkeypatch.setattr(randomness, "_source", None)  # restored afterwards
    made = GuestHarnesses(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("kind", ["agent", "agent-wrong-clock"])
def test_an_agent_prepares_then_approves_and_undoes_when_the_event_is_gone(worlds: GuestHarnesses, kind: str) -> None:
    """The real agent runs in the guest, also with a clock that is wrong."""
    world = worlds(kind, seed=3)
    world.restart(kind)
    world.run(150.0)

    steps = world.steps(kind)
    assert steps.index("prepared") < steps.index("approved") < steps.index("undone")
    assert len(world.approved(kind)) == 1
    assert not world.guests.wrong


def test_the_clock_of_a_guest_may_be_wrong(worlds: GuestHarnesses) -> None:
    """Only the guest with a wrong clock has one."""
    world = worlds("agent", "agent-wrong-clock")

    assert world.agent("agent").clock.error.total_seconds() == 0
    assert abs(world.agent("agent-wrong-clock").clock.error.total_seconds()) >= 10


def test_a_request_under_way_is_reported_without_a_response_when_its_guest_is_killed(worlds: GuestHarnesses) -> None:
    """The service may have acted on it, so the checker must know of it; nothing follows it."""
    world = worlds("agent")
    before = len(world.seen)
    world.guests.kill("agent")

    assert [(each.method, each.status) for each in world.seen[before:] if isinstance(each, VmExchange)] == [
        ("GET", 0)
    ]
    world.run(60.0)
    assert len(world.seen) == before + 1


def test_a_guest_that_is_started_again_has_another_boot_id(worlds: GuestHarnesses) -> None:
    """A start of a running guest is no boot."""
    world = worlds("agent")
    first = world.agent("agent").boot_id
    world.guests.start("agent")
    assert world.agent("agent").boot_id == first
    world.guests.reboot("agent")

    assert world.agent("agent").boot_id != first


def test_an_agent_that_was_killed_remembers_what_it_prepared(worlds: GuestHarnesses) -> None:
    """The memory file outlives the process: nothing is prepared twice, and all of it is undone."""
    world = worlds("agent", seed=3)
    world.restart("agent")
    while "prepared" not in world.steps("agent"):
        world.run(0.1)
    world.guests.reboot("agent")
    world.run(150.0)

    preparing = [handler for handler in world.agent("agent").handlers.values() if handler.prepares]
    assert world.steps("agent").count("prepared") == len(preparing)
    assert "undone" in world.steps("agent")
    assert not world.guests.wrong


@pytest.mark.parametrize("how", ["torn", "flipped"])
def test_an_agent_with_a_damaged_memory_starts_again(worlds: GuestHarnesses, how: str) -> None:
    """It starts without a reboot, asks again, and repeats no call."""
    world = worlds("agent", seed=3)
    world.restart("agent")
    world.run(3.0)
    boot, before = world.agent("agent").boot_id, len(world.seen)
    world.guests.damage_memory("agent", how)
    world.run(20.0)

    assert world.agent("agent").boot_id == boot
    assert any(isinstance(each, VmExchange) and each.status == 200 for each in world.seen[before:])
    assert not world.guests.wrong


def test_an_agent_that_lost_its_memory_repeats_no_call(worlds: GuestHarnesses) -> None:
    """After a reboot the memory is one line; the handlers know what they did."""
    world = worlds("agent", seed=1)
    world.restart("agent")
    while "prepared" not in world.steps("agent"):
        world.run(0.1)
    world.guests.reboot("agent")
    world.run(0.1)
    world.guests.damage_memory("agent", "flipped")
    world.run(60.0)

    assert not world.guests.wrong


def test_a_guest_runs_only_while_its_machine_does(worlds: GuestHarnesses) -> None:
    """A guest of a stopped machine cannot be started, and boots with its machine."""
    world = worlds("prompt")
    world.guests.set_running("prompt", False)
    world.guests.start("prompt")
    before = len(world.seen)
    world.run(10.0)
    assert len(world.seen) == before

    world.guests.set_running("prompt", True)
    world.run(10.0)
    assert len(world.seen) > before


def test_a_prompt_guest_approves_its_own_events_only(worlds: GuestHarnesses) -> None:
    """It approves within seconds what names its VM, and nothing else."""
    world = worlds("prompt", "silent")
    world.restart("silent")
    world.run(5.0)
    assert not world.exchanges("prompt", "POST")

    world.restart("prompt")
    world.run(5.0)
    assert world.approved("prompt")


def test_a_slow_guest_asks_seldom_and_may_approve_late(worlds: GuestHarnesses) -> None:
    """It asks every 10 seconds, and approves nothing at once."""
    world = worlds("slow", seed=2)
    world.restart("slow")
    shown_at = world.loop.time()
    world.run(85.0)

    assert 8 <= len(world.exchanges("slow", "GET")) <= 11
    assert all(each.sent_at > shown_at + 5 for each in world.exchanges("slow", "POST"))


def test_a_silent_guest_never_asks(worlds: GuestHarnesses) -> None:
    """It sends nothing at all."""
    world = worlds("silent")
    world.run(60.0)

    assert not world.seen


def test_a_meddling_guest_approves_events_of_others(worlds: GuestHarnesses) -> None:
    """It approves events that do not name its VM."""
    world = worlds("approver-of-others", "silent")
    world.restart("silent")
    world.run(10.0)

    assert world.approved("approver-of-others")


def test_an_old_guest_asks_in_several_old_api_versions_and_approves(worlds: GuestHarnesses) -> None:
    """It uses four old api-versions in turn, and finds its name in each."""
    world = worlds("old")
    while not world.exchanges("old")[-1].target.endswith("2019-08-01"):
        world.run(0.1)
    world.restart("old")
    world.run(10.0)

    versions = {each.target.partition("=")[2] for each in world.exchanges("old")}
    assert versions == {"2017-03-01", "2017-08-01", "2019-01-01", "2019-08-01"}
    # The oldest one writes the VM's name with an underscore.
    assert [each.target[-10:] for each in world.exchanges("old", "POST")] == ["2017-03-01"]
    assert world.approved("old")


def test_a_guest_with_long_polls_hears_of_an_event_at_once(worlds: GuestHarnesses) -> None:
    """Its request waits until the document changes."""
    world = worlds("long-poll", "silent")
    world.restart("silent")
    asked_at = world.loop.time()
    world.run(2.0)

    news = [each for each in world.exchanges("long-poll") if b"silent" in each.response]
    assert news[0].headers["preference-applied"] == "wait"
    assert news[0].ended_at - asked_at < 0.5


def test_a_hostile_guest_is_refused_and_stops_at_the_end(worlds: GuestHarnesses) -> None:
    """Its requests are reported with their refusals, until it is quietened."""
    world = worlds("hostile")
    world.run(120.0)
    assert {each.status for each in world.exchanges("hostile")} > {200, 400}

    world.guests.quieten()
    world.run(40.0)
    before = len(world.seen)
    world.run(100.0)
    assert len(world.seen) == before


@pytest.mark.end_to_end
def test_the_same_seed_gives_the_same_exchanges_whatever_ran_before(worlds: GuestHarnesses) -> None:
    """Nothing of one simulation reaches the next."""

    def run(seed: int) -> list[Exchange]:
        world = worlds(*KINDS, seed=seed)
        for kind in KINDS:
            world.restart(kind)
        world.run(30.0)
        world.guests.reboot("agent")
        world.run(60.0)
        world.end()
        return world.seen

    first = run(1)
    run(2)
    assert run(1) == first


def test_a_call_that_must_not_be_repeated_is_noticed(worlds: GuestHarnesses) -> None:
    """A handler that does not repeat keeps a record of what succeeded."""
    world = worlds("agent")
    world.guests.kill("agent")
    guest = world.agent("agent")
    handler = SimulatedHandler(guest, "save")
    event = ScheduledEvent(id="e1", type="Reboot", status=EventStatus.SCHEDULED, resources=("agent",))
    task = Task(
        event=event, vm="agent", direction=Direction.DO, deadline=guest.clock.now(), stopping=threading.Event()
    )
    guest.is_quiet = True  # it fails no more
    assert isinstance(handler.do(task), HandlerDone)
    assert isinstance(handler.outcome_of(task), HandlerDone)
    assert not guest.wrong
    guest.process = SimulatedProcess("agent", "10.0.0.1")  # as after a reboot
    handler.do(task)

    assert guest.wrong == ["handler save of the agent in agent was called again for e1, though it had succeeded"]


def test_an_undo_that_the_agent_gave_up_is_reported(worlds: GuestHarnesses) -> None:
    """The call had its effect, and no later call reports it."""
    world = worlds("agent")
    guest = world.agent("agent")
    handler = guest.handlers["save"] = SimulatedHandler(guest, "save")
    event = ScheduledEvent(id="e1", type="Reboot", status=EventStatus.SCHEDULED, resources=("agent",))
    stopping = threading.Event()
    task = Task(event=event, vm="agent", direction=Direction.UNDO, deadline=guest.clock.now(), stopping=stopping)
    guest.is_quiet = True  # it fails no more
    handler.undo(task)
    assert "undone" not in world.steps("agent")
    handler.end_given_up_undo("e2")
    assert "undone" not in world.steps("agent")
    guest._on_fact(EventForgotten("e1", not_undone=("save",)))

    assert world.steps("agent").count("undone") == 1
