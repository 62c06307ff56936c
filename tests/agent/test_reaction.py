"""What the agent does next, told as stories: the world says what happens, the agent what it begins."""

import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from forewarn.agent.approving import Approver
from forewarn.agent.facts import Forgotten, LeftOut
from forewarn.agent.handler import Direction, Done, Failed, NotBegun
from forewarn.agent.plan import HANDOVER, OnFailure, Terms
from forewarn.agent.reaction import Traits
from forewarn.agent.rules import Approval, Concern, Rule
from forewarn.agent.running import GRACE
from forewarn.core.model import EventType
from forewarn.wire.document import Document
from tests.agent.world import START, World, agenda, event, started

GO_ON = OnFailure.GO_ON


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def left_out(world: World) -> dict[str, str]:
    return {fact.handler: fact.reason for fact in world.facts if isinstance(fact, LeftOut)}


def test_a_whole_cycle() -> None:
    """Prepare stage after stage, approve, wait, put back in reverse order, forget."""
    world = World(agenda("drain", ("database", "cache"), "tell"))
    world.show(event())
    assert world.said() == ["do drain"]
    world.end("drain")
    assert world.said() == ["do database", "do cache"]
    world.end("cache")
    assert world.said() == []
    world.end("database")
    assert world.said() == ["do tell"]
    world.end("tell")
    assert world.said() == ["approve e1"]
    world.approved()
    world.show(started(event()))
    assert world.said() == []
    world.show()
    for handler in ("tell", "cache", "database", "drain"):
        assert world.said() == [f"undo {handler}"]
        world.end(handler)
    assert world.said() == []
    assert world.memory.events == {}


def test_what_was_kept_is_handed_to_undo() -> None:
    """Undo knows what do said was to be kept, also after the agent has begun anew."""
    world = World(agenda("drain"))
    world.show(event())
    world.end("drain", Done(kept={"was": "ready"}))
    world.crash(reboot=True)
    world.show()

    assert world.running["e1", "drain"].kept == {"was": "ready"}


def test_a_handler_that_is_done_is_not_run_again() -> None:
    """Neither when the same document comes again, nor when the event changes, nor after a crash."""
    world = World(agenda("drain"))
    world.show(event())
    world.end("drain")
    world.said()
    world.show(event(), event("e2", resources=("web-1",)))
    world.show(event(not_before=START + timedelta(minutes=20)))
    world.crash()

    assert world.said() == ["approve e1"]


def test_a_failed_handler_is_tried_again_as_often_as_it_says() -> None:
    """Each time after its pause; then the event goes on without it."""
    world = World(agenda("drain", terms={"drain": Terms(retries=2, retry_after=seconds(5), on_failure=GO_ON)}))
    world.show(event())
    for _ in range(2):
        assert world.said() == ["do drain"]
        world.fail("drain")
        assert world.said() == []
        assert world.wake_at == world.now + seconds(5)
        world.pass_time(seconds=5)
    assert world.said() == ["do drain"]
    world.fail("drain")

    assert world.said() == ["approve e1"]


def test_a_final_failure_is_not_tried_again() -> None:
    """The handler itself knows that it is pointless."""
    world = World(agenda("drain", terms={"drain": Terms(retries=5, on_failure=GO_ON)}))
    world.show(event())
    world.end("drain", Failed("no such server", final=True))

    assert world.said() == ["do drain", "approve e1"]


def test_a_failure_that_holds_lets_the_rest_run_and_the_approval_be() -> None:
    """The event comes at its own time; what was done is put back after it."""
    world = World(agenda("drain", "tell", terms={"drain": Terms(on_failure=OnFailure.HOLD)}))
    world.show(event())
    world.fail("drain")
    world.end("tell")
    assert world.said() == ["do drain", "do tell"]
    world.show(started(event()))
    world.show()

    assert world.said() == ["undo tell"]


def test_a_failure_that_gives_up_ends_the_preparation() -> None:
    """Nothing more is run, nothing is approved, and each that is left out is told why."""
    world = World(agenda("drain", "tell", "log", terms={"drain": Terms(on_failure=OnFailure.GIVE_UP)}))
    world.show(event())
    world.fail("drain")

    assert world.said() == ["do drain"]
    assert left_out(world) == {"tell": "drain failed", "log": "drain failed"}


def test_what_failed_is_put_back_too() -> None:
    """A handler that failed may have changed something."""
    world = World(agenda("drain"))
    world.show(event())
    world.fail("drain")
    world.said()
    world.show()

    assert world.said() == ["undo drain"]


def test_only_what_fits_is_run_the_most_important_first() -> None:
    """With half a minute of notice, the checkpoint is worth more than the drain before it."""
    terms = {
        "drain": Terms(takes=seconds(20)),
        "checkpoint": Terms(takes=seconds(20), importance=9),
        "tell": Terms(takes=seconds(2)),
    }
    world = World(agenda("drain", "checkpoint", "tell", terms=terms))
    world.show(event(type="Preempt", not_before=START + seconds(30)))

    assert world.said() == ["do checkpoint"]
    assert left_out(world) == {"drain": "it takes 20s, more than the event leaves it"}
    assert world.running["e1", "checkpoint"].deadline == START + seconds(30 - 1 - 2) - HANDOVER


def test_a_deadline_leaves_later_handlers_their_time() -> None:
    """A handler that hangs may not take what another one needs."""
    terms = {"drain": Terms(takes=seconds(5), timeout=seconds(60)), "checkpoint": Terms(takes=seconds(20))}
    world = World(agenda("drain", "checkpoint", terms=terms))
    world.show(event(not_before=START + seconds(40)))

    assert world.running["e1", "drain"].deadline == START + seconds(40 - 1 - 20) - HANDOVER


def test_what_took_too_long_costs_the_least_important() -> None:
    """What still fits is looked at anew before every stage."""
    terms = {"drain": Terms(takes=seconds(5)), "slow": Terms(takes=seconds(20)), "tell": Terms(takes=seconds(1))}
    world = World(agenda("drain", "slow", "tell", terms=terms))
    world.show(event(not_before=START + seconds(30)))
    world.said()
    world.pass_time(seconds=15)
    world.end("drain")

    assert world.said() == ["do tell"]
    assert left_out(world) == {"slow": "it takes 20s, more than the event leaves it"}


def test_what_comes_too_late_is_left_out() -> None:
    """In the last second before NotBefore nothing is begun any more; the reason says so."""
    world = World(agenda("tell"))
    world.show(event(not_before=START + seconds(1)))

    assert left_out(world) == {"tell": "no time is left"}


def test_a_started_event_is_not_prepared_for() -> None:
    """It may happen at any moment; what waits is left out, and what runs may end."""
    world = World(agenda("drain", "tell"))
    world.show(event())
    world.show(started(event()))
    world.end("drain")

    assert world.said() == ["do drain"]
    assert left_out(world) == {"tell": "the event has started"}


def test_a_late_rule_prepares_for_a_started_event() -> None:
    """Hardware that failed gives no notice, and somebody may want to be told all the same."""
    world = World(agenda("tell", rule=Rule(name="late", late=True)))
    world.show(started(event()))
    world.end("tell")

    assert world.said() == ["do tell"]


@pytest.mark.parametrize("is_started", [False, True])
def test_an_event_that_is_canceled_stops_its_preparation(is_started: bool) -> None:  # noqa: FBT001 - a case
    """The handler is told; once it has returned, it is put back."""
    world = World(agenda("drain"))
    world.show(event())
    if is_started:
        world.show(started(event()))
    world.said()
    world.show()
    assert world.said() == ["stop drain"]
    world.fail("drain", "stopped")

    assert world.said() == ["undo drain"]


def test_a_call_that_was_cut_off_is_made_again_if_it_repeats() -> None:
    """The attempt keeps its number: nothing failed."""
    world = World(agenda("drain"))
    world.show(event())
    world.said()
    world.crash()

    assert world.said() == ["do drain"]
    assert world.running["e1", "drain"].attempt == 1


def test_a_call_that_was_cut_off_is_asked_about_if_it_does_not_repeat() -> None:
    """What it answers counts as if it had returned."""
    world = World(agenda("switch", traits={"switch": Traits(repeats=False, shared=False)}))
    world.show(event())
    world.crash()
    assert world.said() == ["do switch", "ask switch"]
    world.end("switch", Done())

    assert world.said() == ["approve e1"]


def test_a_call_that_had_not_begun_is_made() -> None:
    """The handler promised that nothing is repeated."""
    world = World(agenda("switch", traits={"switch": Traits(repeats=False, shared=False)}))
    world.show(event())
    world.crash()
    world.said()
    world.end("switch", NotBegun())

    assert world.said() == ["do switch"]


def test_a_cut_off_undo_is_taken_up_again() -> None:
    """Also before the endpoint is heard for the first time."""
    world = World(agenda("drain"))
    world.show(event())
    world.end("drain")
    world.show()
    world.said()
    world.crash()

    assert world.said() == ["undo drain"]


def test_a_cut_off_do_of_an_event_that_is_gone_is_put_back() -> None:
    """The VM was rebooted while it got ready: nothing is begun again, and what was begun is undone."""
    world = World(agenda("drain"))
    world.show(event())
    world.said()
    world.document = None
    world.memory.cut_off()
    world.running.clear()
    world.show()

    assert world.said() == ["undo drain"]


def test_a_handler_that_left_the_configuration_is_told_and_forgotten() -> None:
    """Nobody can undo what nobody describes any more; the event does not stay for ever."""
    world = World(agenda("drain"))
    world.show(event())
    world.end("drain")
    world.agenda = agenda()
    world.show()

    assert world.facts[-1] == Forgotten("e1", (), ("drain",))


def test_what_could_not_be_put_back_is_named_when_the_event_is_forgotten() -> None:
    """What was tried again with success is not."""
    world = World(agenda("drain", "tell", "log", terms={"log": Terms(retries=1)}))
    world.show(event())
    for name in ("drain", "tell", "log"):
        world.end(name)
    world.show()
    world.fail("log")
    world.pass_time(seconds=5)
    world.end("log")
    world.fail("tell")
    world.end("drain")

    assert world.facts[-1] == Forgotten("e1", ("drain", "log"), ("tell",))


def test_an_event_that_comes_back_is_prepared_for_anew() -> None:
    """An endpoint may lose an event and find it again."""
    world = World(agenda("drain"))
    world.show(event())
    world.end("drain")
    world.show()
    world.said()
    world.show(event())
    assert world.said() == []
    world.end("drain")

    assert world.said() == ["do drain"]


SHARED = {"drain": Traits(repeats=True, shared=True)}


def test_a_shared_handler_is_done_once_and_undone_after_the_last() -> None:
    """A server that is drained for one event is drained for the other too, and stays so until both are gone."""
    world = World(agenda("drain", traits=SHARED))
    world.show(event(), event("e2"))
    assert world.said() == ["do drain"]
    world.end("drain", Done(kept={"was": "ready"}))
    assert world.said() == ["approve e1", "approve e2"]
    world.show(event("e2"))
    assert world.said() == []
    world.show()

    assert world.said() == ["undo drain"]
    assert world.running["e2", "drain"].kept == {"was": "ready"}


def test_a_handler_is_called_for_one_event_at_a_time() -> None:
    """The second event waits until the first call has returned."""
    world = World(agenda("tell"))
    world.show(event(), event("e2"))
    assert world.said() == ["do tell"]
    world.end("tell")

    assert world.said() == ["approve e1", "do tell"]


def test_an_approval_waits_for_whoever_holds() -> None:
    """Until the holder says ready, or its time is up."""
    world = World(agenda("drain"))
    world.show(event())
    world.hold("database", seconds=60)
    world.hold("cache", seconds=90)
    world.end("drain")
    world.release("database")
    assert world.said() == ["do drain"]
    assert world.wake_at == START + seconds(90)
    world.pass_time(seconds=90)

    assert world.said() == ["approve e1"]


@pytest.mark.parametrize(
    ("approval", "said"), [(Approval.AT_ONCE, ["do drain", "approve e1"]), (Approval.NEVER, ["do drain"])]
)
def test_when_an_event_is_approved_is_the_rules_choice(approval: Approval, said: list[str]) -> None:
    """At once means beside the handlers; never leaves it to NotBefore."""
    world = World(agenda("drain", rule=Rule(name="some", approval=approval)))
    world.show(event())

    assert world.said() == said


def test_the_leader_approves_and_the_next_takes_over() -> None:
    """The second name in Resources waits as long as the leader may stay silent."""
    world = World(agenda())
    world.show(event(resources=("WEB-9", "WEB-0")))
    assert world.said() == []
    assert world.wake_at == START + timedelta(minutes=5)
    world.pass_time(minutes=5)

    assert world.said() == ["approve e1"]


def test_each_approves_for_itself() -> None:
    """Where the group wants the approval of all, nobody waits for a leader."""
    world = World(agenda(approver=Approver.EACH))
    world.show(event(resources=("web-9", "web-0")))

    assert world.said() == ["approve e1"]


def test_the_coordinator_is_asked_until_it_agrees() -> None:
    """No is not now: it is asked again after a while."""
    world = World(agenda(approver=Approver.COORDINATOR))
    world.show(event())
    world.consulted(agreed=False)
    assert world.said() == ["consult e1"]
    world.pass_time(seconds=10)
    assert world.said() == ["consult e1"]
    world.consulted(agreed=True)

    assert world.said() == ["approve e1"]


def test_the_coordinator_is_asked_again_when_the_clock_is_set_back() -> None:
    """An answer from the future is old."""
    world = World(agenda(approver=Approver.COORDINATOR))
    world.show(event())
    world.consulted(agreed=False)
    world.said()
    world.pass_time(hours=-1)

    assert world.said() == ["consult e1"]


def test_an_approval_that_is_not_taken_is_sent_again_after_growing_pauses() -> None:
    """Two seconds, four, and so on, but never more than a minute, also across a restart of the agent."""
    world = World(agenda())
    world.show(event())
    pauses = []
    for _ in range(8):
        assert world.said() == ["approve e1"]
        world.not_approved()
        assert world.said() == []
        world.crash()
        assert world.said() == []
        assert world.wake_at is not None
        pauses.append((world.wake_at - world.now).total_seconds())
        world.pass_time(seconds=pauses[-1])

    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize("approval", [Approval.WHEN_READY, Approval.AT_ONCE])
def test_what_is_due_is_not_approved(approval: Approval) -> None:
    """It comes without; and who was left no time by it, or by a clock that is ahead, is not ready."""
    world = World(agenda("drain", rule=Rule(name="all", approval=approval)))
    world.show(event(not_before=START))

    assert world.said() == []
    assert left_out(world) == {"drain": "no time is left"}


def test_an_approval_that_is_not_taken_is_not_sent_after_not_before() -> None:
    """The event begins without it."""
    world = World(agenda())
    world.show(event(not_before=START + timedelta(seconds=5)))
    world.not_approved()
    world.pass_time(seconds=2)
    world.not_approved()
    world.said()
    world.pass_time(seconds=4)

    assert world.said() == []
    assert world.wake_at is None


def test_an_approval_that_is_not_taken_is_sent_at_once_when_the_event_changes() -> None:
    """The endpoint may think otherwise of it now."""
    world = World(agenda())
    world.show(event())
    world.not_approved()
    world.said()
    world.show(event(not_before=START + timedelta(minutes=20)))

    assert world.said() == ["approve e1"]


def test_the_coordinator_is_not_asked_again_for_an_approval_that_is_not_taken() -> None:
    """It has agreed; only the endpoint has not."""
    world = World(agenda(approver=Approver.COORDINATOR))
    world.show(event())
    world.consulted(agreed=True)
    world.not_approved()
    world.said()
    world.pass_time(seconds=3)

    assert world.said() == ["approve e1"]


def test_nobody_approves_what_happens_to_others() -> None:
    """Only those whom it happens to know whether they are ready."""
    world = World(agenda("tell", rule=Rule(name="others", concerns=Concern.OTHERS)))
    world.show(event(resources=("web-1",)))
    world.end("tell")

    assert world.said() == ["do tell"]


def test_without_a_rule_nothing_is_done() -> None:
    """Not even approved: nobody said that this VM is ready for it."""
    world = World(agenda("drain", rule=Rule(name="freezes", types=())))
    world.show(event(resources=("web-1",)))

    assert world.said() == []


def test_a_shared_handler_is_undone_when_all_its_events_are_gone_at_once() -> None:
    """Neither event may leave it to the other."""
    world = World(agenda("drain", traits=SHARED))
    world.show(event(), event("e2"))
    world.end("drain")
    world.said()
    world.show()

    assert world.said() == ["undo drain"]


def test_what_an_event_joins_is_not_put_back_in_the_same_moment() -> None:
    """One event is gone as the other comes to the handler they share: it stays as it is, for the other."""
    world = World(agenda("slow", "drain", traits=SHARED))
    freezes = Rule(name="freezes", types=(EventType.FREEZE,), stages=(("slow",), ("drain",)))
    reboots = Rule(name="reboots", stages=(("drain",),))
    world.agenda = msgspec.structs.replace(world.agenda, rules=(freezes, reboots))
    world.show(event("e2", type="Freeze"), event("e1"))
    world.end("drain", event="e1")
    assert world.said() == ["do slow", "do drain", "approve e1"]
    world.document = Document(9, (event("e2", type="Freeze"),))
    world.end("slow", event="e2")

    assert world.said() == ["approve e2"]


def test_an_event_that_comes_back_is_not_approved_while_it_is_being_put_back() -> None:
    """It is approved again, and only after it was prepared for again."""
    world = World(agenda("drain"))
    world.show(event())
    world.end("drain")
    world.approved()
    world.show()
    assert world.said() == ["do drain", "approve e1", "undo drain"]
    world.show(event())
    assert world.said() == []
    world.end("drain")
    assert world.said() == ["do drain"]
    world.end("drain")

    assert world.said() == ["approve e1"]


def test_a_cut_off_undo_of_an_event_that_comes_back_is_ended_first() -> None:
    """Nobody may do what is half put back."""
    world = World(agenda("switch", traits={"switch": Traits(repeats=False, shared=False)}))
    world.show(event())
    world.end("switch")
    world.show()
    world.said()
    world.document = Document(9, (event(),))
    world.crash()
    assert world.said() == ["ask switch"]
    assert world.asked["e1", "switch"].direction is Direction.UNDO
    world.end("switch")
    assert world.said() == ["do switch"]
    world.end("switch")

    assert world.said() == ["approve e1"]


def test_what_was_left_out_for_want_of_time_is_done_when_the_event_is_postponed() -> None:
    """An operator, or a VM of the group, gave it more time."""
    world = World(agenda("drain", terms={"drain": Terms(takes=seconds(20), on_failure=OnFailure.HOLD)}))
    world.show(event(not_before=START + seconds(10)))
    assert world.said() == []
    world.show(event(not_before=START + seconds(60)))

    assert world.said() == ["do drain"]


def test_an_event_that_is_to_come_again_is_prepared_for() -> None:
    """A service may take back that it has started."""
    world = World(agenda("drain"))
    world.show(started(event()))
    assert world.said() == []
    world.show(event())

    assert world.said() == ["do drain"]


def test_a_call_under_way_is_fitted_to_a_time_that_was_moved() -> None:
    """Whoever comes after it finds its time also when NotBefore is earlier than it was."""
    terms = {"drain": Terms(timeout=seconds(600)), "checkpoint": Terms(takes=seconds(20))}
    world = World(agenda("drain", "checkpoint", terms=terms))
    world.show(event())
    assert world.running["e1", "drain"].deadline == START + seconds(600)
    world.show(event(not_before=START + seconds(60)))

    assert world.stops["e1", "drain"] == START + seconds(60 - 1 - 20) - HANDOVER


@pytest.mark.parametrize("moved_to", [60, 45, 24])
def test_the_next_handler_keeps_its_time_when_not_before_moves_earlier(moved_to: int) -> None:
    """Also if the call that was told to stop needs the whole second of grace, and some milliseconds more."""
    terms = {"drain": Terms(timeout=seconds(600)), "checkpoint": Terms(takes=seconds(20))}
    world = World(agenda("drain", "checkpoint", terms=terms))
    world.show(event())
    world.show(event(not_before=START + seconds(moved_to)))
    at = world.stops["e1", "drain"]
    assert at is not None
    world.now = at + seconds(GRACE) + timedelta(milliseconds=40)
    world.said()
    world.fail("drain", "it was told to stop")

    assert world.said() == ["do checkpoint"]
    assert world.running["e1", "checkpoint"].deadline == START + seconds(moved_to - 1)


def test_two_that_just_fit_lose_no_milliseconds_to_each_other() -> None:
    """The first may use all that it says it takes, and what passes until the second begins is not counted."""
    terms = {"drain": Terms(takes=seconds(9), timeout=seconds(60)), "checkpoint": Terms(takes=seconds(20))}
    world = World(agenda("drain", "checkpoint", terms=terms))
    world.show(event())
    world.show(event(not_before=START + seconds(30)))
    assert world.stops["e1", "drain"] == START + seconds(9)
    world.now = START + seconds(9) + timedelta(milliseconds=40)
    world.said()
    world.end("drain")

    assert world.said() == ["do checkpoint"]


def test_a_call_is_not_cut_for_one_that_does_not_fit_any_more() -> None:
    """It has all the time that is left."""
    terms = {"drain": Terms(timeout=seconds(600)), "checkpoint": Terms(takes=seconds(20))}
    world = World(agenda("drain", "checkpoint", terms=terms))
    world.show(event())
    world.show(event(not_before=START + seconds(22)))

    assert world.stops["e1", "drain"] == START + seconds(21)


def test_a_pause_ends_when_the_clock_is_set_back() -> None:
    """A failure that seems to lie in the future was long enough ago."""
    world = World(agenda("drain", terms={"drain": Terms(retries=1, retry_after=seconds(5))}))
    world.show(event())
    world.fail("drain")
    world.said()
    world.pass_time(hours=-1)

    assert world.said() == ["do drain"]


@pytest.mark.parametrize(("year", "said"), [(1, []), (9999, ["do drain"])])
def test_no_time_that_a_service_may_say_is_too_much(year: int, said: list[str]) -> None:
    """The ends of the calendar are times like others: one long past, one far ahead."""
    world = World(agenda("drain", ("tell", "log"), terms={"drain": Terms(takes=seconds(5))}))
    world.show(event(not_before=datetime(year, 1, 1, tzinfo=UTC)))
    world.show(event(not_before=datetime(year, 1, 1, tzinfo=UTC), description="still"))

    assert world.said() == said


def test_who_holds_and_succeeds_is_not_in_the_way() -> None:
    """Holding the approval is for failures."""
    world = World(agenda("drain", terms={"drain": Terms(on_failure=OnFailure.HOLD)}))
    world.show(event())
    world.end("drain")

    assert world.said() == ["do drain", "approve e1"]


def test_what_is_still_open_is_looked_at_when_the_time_has_come() -> None:
    """Nothing else may happen before NotBefore."""
    world = World(agenda("drain"))
    world.show(event())

    assert world.wake_at == event().not_before


def test_nothing_is_put_back_while_anything_is_still_being_done() -> None:
    """The order would be lost."""
    world = World(agenda(("database", "cache")))
    world.show(event())
    world.end("cache")
    world.said()
    world.show()
    assert world.said() == ["stop database"]
    world.end("database")

    assert world.said() == ["undo cache"]


def test_what_was_put_back_before_an_event_came_back_is_done_again_in_order() -> None:
    """And is not put back twice."""
    world = World(agenda("drain", "tell"))
    world.show(event())
    world.end("drain")
    world.end("tell")
    world.show()
    world.end("tell")
    world.said()
    world.show(event())
    for handler in ("drain", "drain", "tell"):
        world.end(handler)

    assert world.said() == ["do drain", "do tell", "approve e1"]


@pytest.mark.parametrize("count", [2_000])
def test_many_events_that_share_a_handler_take_few_turns(count: int) -> None:
    """One call serves them all, and what follows for the others is decided in one pass."""
    world = World(agenda("drain", "tell", traits=dict.fromkeys(("drain", "tell"), Traits(repeats=True, shared=True))))
    began = time.process_time()
    world.show(*(event(f"e{number}") for number in range(count)))
    world.end("drain", event="e0")
    world.end("tell", event="e0")
    world.show()
    world.end("tell", event=f"e{count - 1}")
    world.end("drain", event=f"e{count - 1}")

    said = world.said()
    assert [each for each in said if not each.startswith("approve")] == [
        "do drain",
        "do tell",
        "undo tell",
        "undo drain",
    ]
    assert len(said) == count + 4
    assert world.memory.events == {}
    assert time.process_time() - began < 20  # it takes half a second; it took hours
