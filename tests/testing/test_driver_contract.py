"""The published driver contract: it must fail drivers that break it."""

import fcntl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from forewarn.core.errors import BadInput
from forewarn.core.model import EventType
from forewarn.node.driver import (
    Driver,
    HostCommand,
    HostCommandEnded,
    HostCommandOutcome,
    Impact,
    ImpactDone,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    refuse_type,
)
from forewarn.testing.driver_contract import (
    DriverContract,
    DriverTrial,
    FencingDriverContract,
    FencingDriverTrial,
)
from tests.node.wrong_drivers import ANSWERS, INCOMPLETE, RELEASED, Hurried, WrongDriver

Feelings = Counter[str]


class HonestDriver:
    """Keeps the contract: it looks at the machines before it touches them."""

    moves_live = False

    def __init__(self, felt: Feelings) -> None:
        self.felt = felt

    def perform(self, impact: Impact) -> ImpactOutcome:
        if impact.event.type is not EventType.REBOOT:
            return refuse_type(impact.event)
        if not self.felt[impact.event.id]:
            self.felt[impact.event.id] += 1
        return ImpactDone()

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return ImpactDone() if self.felt[impact.event.id] else ImpactNotBegun()

    def close(self) -> None:
        pass


class Repeating(HonestDriver):
    """Does it again whenever it is called."""

    def perform(self, impact: Impact) -> ImpactOutcome:
        self.felt[impact.event.id] += 1
        return ImpactDone()


class Indifferent(HonestDriver):
    """Does the same whatever was announced."""

    def perform(self, impact: Impact) -> ImpactOutcome:
        self.felt[impact.event.id] = 1
        return ImpactDone()


class Meddling(HonestDriver):
    """Acts when asked."""

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return self.perform(impact)


class Boasting(HonestDriver):
    """Says Done before anything was done."""

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return ImpactDone()


class Forgetful(HonestDriver):
    """Takes what was done for not begun."""

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return ImpactNotBegun()


class Endless(HonestDriver):
    """Is under way for ever."""

    def perform(self, impact: Impact) -> ImpactOutcome:
        return ImpactUnderway(datetime.now(UTC) - timedelta(seconds=1))

    outcome_of = perform


class Confused(HonestDriver):
    """Mixes events up."""

    def perform(self, impact: Impact) -> ImpactOutcome:
        if not self.felt:
            self.felt[impact.event.id] += 1
        return ImpactDone()


class Raising(HonestDriver):
    """Raises instead of answering."""

    def perform(self, impact: Impact) -> ImpactOutcome:
        raise RuntimeError("no")


class Forgetting(HonestDriver):
    """Forgets to return what came of it."""

    def perform(self, impact: Impact) -> ImpactOutcome:
        super().perform(impact)
        return None  # type: ignore[return-value]  # that is what is wrong with it


class Unclosable(HonestDriver):
    """Has a part missing."""

    close = None  # type: ignore[assignment]  # that is what is wrong with it


class RunningAgain(HonestDriver):
    """Runs a command on a host whenever it is called."""

    def run_on_host(self, command: HostCommand) -> HostCommandOutcome:
        self.felt[command.id] += 1
        return HostCommandEnded(0)

    def outcome_on_host(self, command: HostCommand) -> HostCommandOutcome:
        return HostCommandEnded(0) if self.felt[command.id] else ImpactNotBegun()


class CarelessTrial(DriverTrial):
    """Makes drivers of any kind; refuses settings unless told to take whatever comes."""

    longest_call = 30.0

    def __init__(self, driver: type[HonestDriver], *, takes_anything: bool = False) -> None:
        self._driver = driver
        self._takes_anything = takes_anything
        self._felt: Feelings = Counter()

    def make(self, **more: object) -> Driver:
        if more and not self._takes_anything:
            raise BadInput(f"no setting {next(iter(more))}")
        return self._driver(self._felt)

    def times_done(self, event_id: str) -> int:
        return self._felt[event_id]

    def times_run(self, command_id: str) -> int:
        return self._felt[command_id]


class TestHonestDriver(DriverContract):
    """A driver as small as can be keeps the contract."""

    @pytest.fixture
    def trial(self) -> DriverTrial:
        return CarelessTrial(HonestDriver)


class SharedFile:
    """A file that stands for a host: a line for each term and for each event that was done."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def add(self, *words: object) -> None:
        with self._path.open("a") as file:
            print(*words, file=file)

    def all(self, kind: str) -> list[str]:
        lines = (line.split() for line in self._path.read_text().splitlines())
        return [word for found, word in lines if found == kind]


class FencingDriver:
    """Keeps the contract of drivers that fence terms."""

    moves_live = False
    fences_terms = True

    def __init__(self, host: SharedFile) -> None:
        self.host = host

    def perform(self, impact: Impact) -> ImpactOutcome:
        if impact.event.type is not EventType.REBOOT:
            return refuse_type(impact.event)
        with self.host.locked():
            if not self.may_act(impact):
                return ImpactUnknown("a later leader was here")
            self.store(impact)
            if not self.was_done(impact):
                self.host.add("done", impact.event.id)
            return ImpactDone()

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        with self.host.locked():
            if not self.may_act(impact):
                return ImpactUnknown("a later leader was here")
            self.store_when_asked(impact)
            return ImpactDone() if self.was_done(impact) else ImpactNotBegun()

    def close(self) -> None:
        pass

    def may_act(self, impact: Impact) -> bool:
        return impact.term >= max(map(int, self.host.all("term")), default=0)

    def store(self, impact: Impact) -> None:
        self.host.add("term", impact.term)

    def store_when_asked(self, impact: Impact) -> None:
        self.store(impact)

    def was_done(self, impact: Impact) -> bool:
        return impact.event.id in self.host.all("done")


class Unfenced(FencingDriver):
    """Says nothing of fences."""

    fences_terms = False


class Storeless(FencingDriver):
    """Forgets to store the term."""

    def store(self, impact: Impact) -> None:
        pass


class Askable(FencingDriver):
    """Stores the term with the beginning only."""

    def store_when_asked(self, impact: Impact) -> None:
        pass


class Trusting(FencingDriver):
    """Relies on the term alone, and not on what was done for the event."""

    def was_done(self, impact: Impact) -> bool:
        return False


class Careless(FencingDriver):
    """Stores the term and does not look at it."""

    def may_act(self, impact: Impact) -> bool:
        return True

    def was_done(self, impact: Impact) -> bool:
        return impact.term == 1


class FileTrial(FencingDriverTrial):
    """Two nodes and the file of their host."""

    def __init__(self, path: Path, driver: type[FencingDriver] = FencingDriver) -> None:
        self._host = SharedFile(path)
        self._host.add("term", 0)
        self._driver = driver

    def make(self, **more: object) -> Driver:
        if more:
            raise BadInput(f"no setting {next(iter(more))}")
        return self._driver(self._host)

    def make_elsewhere(self) -> Driver:
        return self._driver(self._host)

    def times_done(self, event_id: str) -> int:
        return self._host.all("done").count(event_id)


@pytest.mark.end_to_end
class TestFencingDriver(FencingDriverContract):
    """A small driver that fences terms keeps the contract."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> FencingDriverTrial:
        return FileTrial(tmp_path / "host")


@pytest.mark.parametrize(
    ("driver", "rule"),
    [
        (Unfenced, "test_it_says_that_it_fences"),
        (Storeless, "test_a_lower_term_is_refused"),
        (Storeless, "test_a_question_fences_too"),
        (Askable, "test_a_question_fences_too"),
        (Careless, "test_a_lower_term_is_refused"),
        (Trusting, "test_the_same_term_does_nothing_twice"),
        (Trusting, "test_another_node_knows_what_was_done"),
        (Trusting, "test_another_node_repeats_nothing_after_a_crash"),
    ],
)
def test_a_driver_that_does_not_fence_well_fails_its_test(
    driver: type[FencingDriver], rule: str, tmp_path: Path
) -> None:
    """Each rule has a driver that it catches."""
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(FencingDriverContract(), rule)(FileTrial(tmp_path / "host", driver))


@pytest.mark.end_to_end
def test_a_leader_that_continues_after_it_was_replaced_is_caught(tmp_path: Path) -> None:
    """A driver that knows neither terms nor events does the impact again when its process goes on."""

    class Oblivious(FencingDriver):
        def may_act(self, impact: Impact) -> bool:
            return True

        def was_done(self, impact: Impact) -> bool:
            return False

    with pytest.raises(AssertionError):
        FencingDriverContract().test_a_leader_that_was_stopped_before_its_call_does_nothing(
            FileTrial(tmp_path / "host", Oblivious)
        )


@pytest.mark.parametrize(
    ("driver", "rule"),
    [
        (Repeating, "test_perform_is_idempotent_by_event_id"),
        (Repeating, "test_two_callers_at_once_do_it_once"),
        (Repeating, "test_a_fresh_driver_repeats_nothing_after_a_crash"),
        (Indifferent, "test_an_unknown_type_is_refused"),
        (Meddling, "test_outcome_of_never_acts"),
        (Meddling, "test_nothing_is_claimed_before_perform"),
        (Boasting, "test_nothing_is_claimed_before_perform"),
        (Forgetful, "test_outcome_is_remembered"),
        (Forgetful, "test_a_fresh_driver_repeats_nothing_after_a_crash"),
        (Endless, "test_perform_does_the_impact"),
        (Confused, "test_events_do_not_touch_each_other"),
        (Raising, "test_perform_does_the_impact"),
        (Forgetting, "test_perform_does_the_impact"),
        (Unclosable, "test_it_has_all_that_a_driver_has"),
        (RunningAgain, "test_a_command_on_a_host_is_run_once"),
    ],
)
def test_a_driver_that_breaks_a_rule_fails_its_test(driver: type[HonestDriver], rule: str) -> None:
    """Each rule has a driver that it catches."""
    with pytest.raises((AssertionError, pytest.fail.Exception, RuntimeError, BadInput)):
        getattr(DriverContract(), rule)(CarelessTrial(driver))


def test_a_driver_that_takes_any_setting_fails() -> None:
    """A mistyped setting must not be swallowed."""
    with pytest.raises(pytest.fail.Exception):
        DriverContract().test_unknown_settings_are_refused(CarelessTrial(HonestDriver, takes_anything=True))


def test_a_call_that_does_not_return_fails() -> None:
    """Every call is bounded in time."""

    class Hanging(HonestDriver):
        def perform(self, impact: Impact) -> ImpactOutcome:
            waiting.wait(20)
            return ImpactDone()

    class Impatient(CarelessTrial):
        longest_call = 0.05

    waiting = threading.Event()
    with pytest.raises(pytest.fail.Exception, match=r"did not return within 0\.05 s"):
        DriverContract().test_perform_does_the_impact(Impatient(Hanging))
    waiting.set()


class WrongTrial(DriverTrial):
    """Makes one of the wrong drivers."""

    longest_call = 0.05

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def make(self, **more: object) -> Driver:
        driver: Driver = self._make()
        return driver

    def times_done(self, event_id: str) -> int:
        return 1


WAYS: dict[str, tuple[Callable[[], Any], str]] = {
    **{way: (partial(WrongDriver, answer), said) for way, (answer, said) in ANSWERS.items()},
    "is always in a hurry": (Hurried, "returned an Underway whose check_at had passed"),
    **{way: (partial(lambda driver: driver, driver), "which lacks") for way, driver in INCOMPLETE.items()},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_contract_catches_every_wrong_driver(way: str) -> None:
    """Each way to be wrong, sixteen at least, fails a test of the contract that says what is wrong and where."""
    RELEASED.clear()
    make, said = WAYS[way]
    rules = {name: rule for name, rule in vars(DriverContract).items() if name.startswith("test_")}
    found = {name: _failure_of(rule, WrongTrial(make)) for name, rule in rules.items()}
    RELEASED.set()

    assert len(WAYS) >= 16
    assert any(said in failure for failure in found.values()), found


def _failure_of(rule: Callable[..., None], trial: DriverTrial) -> str:
    try:
        rule(DriverContract(), trial)
    except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - whatever a rule finds
        return str(failure)
    return ""
