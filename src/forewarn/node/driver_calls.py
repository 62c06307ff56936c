"""Calls into a driver, which may be third-party code: any fault of it becomes an ``ImpactFailed`` outcome.

Each call has a daemon thread of its own, so that one that never returns keeps neither others nor the end of the
process waiting. Only a driver that says of itself that it never waits is called on the event loop.

Where several nodes share a journal, a call waits while this node may not act: its lease may have ended. The thread of
the call looks, at the last moment. A process that leads again waits for the calls that it began before.
"""

import asyncio
import logging
from collections.abc import Callable
from inspect import iscoroutine
from traceback import walk_tb
from typing import Any, TypeVar

import msgspec

from forewarn.core.errors import BadInput, Unavailable
from forewarn.core.model import Host, Vm
from forewarn.core.placement import Capacity
from forewarn.node.driver import (
    Driver,
    HostCommand,
    HostCommandEnded,
    HostCommandOutcome,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    SupportsCapacity,
    fences_terms,
    is_immediate,
)
from forewarn.threads import THREADS
from forewarn.wire.azure_names import show_id

log = logging.getLogger(__name__)
_Value = TypeVar("_Value")

EXPECTED_CALL = 30.0
"""Seconds within which a call returns by the contract; one that takes longer keeps no other call waiting."""
_LONGEST_WORDS = 1000
"""Characters kept of what a driver says; they stand in the journal, in the log and in notifications."""
_MEMBERS = ("perform", "outcome_of", "close")
_POLL_INTERVAL = 0.1
"""Seconds after which it is looked again whether a driver may be called."""


def check_driver(name: str, driver: object) -> Driver:
    """Refuse what cannot be a driver, before anything depends on it."""
    missing = [each for each in _MEMBERS if not callable(_member(driver, each))]
    missing += [] if isinstance(_member(driver, "moves_live"), bool) else ["moves_live"]
    if missing:
        raise BadInput(
            f"driver {name!r} made {class_path_of(driver)}, which lacks {', '.join(missing)}:"
            " mend it, or name another"
        )
    return driver  # type: ignore[return-value]  # that is what was looked at


def _member(driver: object, name: str) -> object:
    try:
        return getattr(driver, name, None)
    except Exception:
        log.exception("the driver failed", extra={"fields": {"call": f"{class_path_of(driver)}.{name}"}})
        return None


class DriverCalls:
    """Asks a driver, so many calls at a time."""

    def __init__(
        self,
        driver: Driver,
        at_once: int,
        *,
        expected_call: float = EXPECTED_CALL,
        longest_call: float = 600.0,
        may_call: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """``longest_call``: seconds after which a call that has not returned ends its event.

        ``may_call`` tells whether the driver may be called now, in a term. It is called from any thread.
        """
        self._driver = driver
        self._expected_call = expected_call
        self._longest_call = longest_call
        self._free = asyncio.Semaphore(at_once)
        self._is_immediate = is_immediate(driver)
        self._may_call = may_call
        self._under_way: dict[str, asyncio.Future[ImpactOutcome | None]] = {}
        """The calls that have not returned, by what they are about."""

    async def perform(self, impact: Impact) -> ImpactOutcome:
        return await self._ask("perform", impact)

    async def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return await self._ask("outcome_of", impact)

    async def switch(self, vm: Vm, *, on: bool, term: int = 0) -> ImpactOutcome:
        """Have a VM started or stopped, by a driver that does that."""
        more = {"term": term} if fences_terms(self._driver) else {}
        return await self._run("switch", {"vm": vm.name}, term, lambda member: member(vm, on=on, **more))

    async def _ask(self, name: str, impact: Impact) -> ImpactOutcome:
        fields = {"event": show_id(impact.event.id)}
        return await self._run(name, fields, impact.term, lambda member: member(impact))

    async def _run(
        self, name: str, fields: dict[str, str], term: int, call: Callable[[Any], object]
    ) -> ImpactOutcome:
        (about,) = fields.values()
        if earlier := self._under_way.get(about):
            await asyncio.wait([earlier], timeout=self._longest_call)
        while True:
            outcome = await self._try(about, lambda: self._call(name, fields, term, call), name)
            if outcome is not None:
                return outcome
            await asyncio.sleep(_POLL_INTERVAL)

    def _call(
        self, name: str, fields: dict[str, str], term: int, call: Callable[[Any], object]
    ) -> ImpactOutcome | None:
        """Call the driver; return None where it may not be called."""
        return _call(self._driver, name, fields, call) if self._may_call(term) else None

    async def _try(self, about: str, call: Callable[[], ImpactOutcome | None], name: str) -> ImpactOutcome | None:
        if self._is_immediate:
            return call()
        place = f"{class_path_of(self._driver)}.{name}"
        async with self._free:
            try:
                answered = _in_thread(call)
            except RuntimeError as error:
                return ImpactUnknown(f"{place} cannot be called: {error}; see how many threads the service may have")
            self._under_way[about] = answered
            answered.add_done_callback(lambda _: self._note_return(about, answered))
            done, _ = await asyncio.wait([answered], timeout=min(self._expected_call, self._longest_call))
        if not done:
            # Its place is free for others meanwhile.
            done, _ = await asyncio.wait([answered], timeout=max(0.0, self._longest_call - self._expected_call))
        if not done:
            answered.cancel()
            return ImpactFailed(f"{place} did not return within {self._longest_call:.0f} s")
        return answered.result()

    def _note_return(self, about: str, answered: "asyncio.Future[ImpactOutcome | None]") -> None:
        if self._under_way.get(about) is answered:
            del self._under_way[about]


async def close_driver(driver: Driver, *, longest: float = 30.0) -> None:
    """Close a driver, and wait for that for ``longest`` seconds; what goes wrong is logged, and ends nothing else."""
    fields = {"driver": class_path_of(driver)}

    def close() -> None:
        try:
            driver.close()
        except BaseException:
            log.exception("the driver was not closed well", extra={"fields": fields})

    try:
        closed = _in_thread(close)
    except RuntimeError:  # no thread can be started
        close()
        return
    done, _ = await asyncio.wait([closed], timeout=longest)
    if not done:
        log.error("the driver was not closed in time", extra={"fields": fields})


async def call_on_host(
    driver: Driver, name: str, command: HostCommand, may_call: Callable[[], bool], *, longest: float = 600.0
) -> HostCommandOutcome:
    """Ask a driver to run a command on a host, or what came of one; any fault of it is a failure.

    ``may_call`` tells whether the driver may be called now; where not, it is worth asking again.
    """
    place = f"{class_path_of(driver)}.{name}"

    def call() -> HostCommandOutcome:
        if not may_call():
            return ImpactUnderway(command.attempted_at)
        try:
            answer = getattr(driver, name)(command)
            if isinstance(answer, HostCommandEnded):
                return HostCommandEnded(int(answer.exit_status), _in_a_line(str(answer.output)))
            outcome = _legible(check_outcome(place, answer))
            return (
                ImpactFailed(f"{place} returned an outcome without status")
                if isinstance(outcome, ImpactDone)
                else outcome
            )
        except BaseException as error:
            log.exception("the driver failed", extra={"fields": {"host": command.host.name, "call": place}})
            return ImpactFailed(describe_error(place, driver, error))

    if is_immediate(driver):
        return call()
    answered = _in_thread(call)
    done, _ = await asyncio.wait([answered], timeout=longest)
    if not done:
        answered.cancel()
        return ImpactUnknown(f"{place} did not return within {longest:.0f} s")
    return answered.result()


async def ask_capacity(driver: SupportsCapacity, vms: tuple[Vm, ...], hosts: tuple[Host, ...]) -> Capacity:
    """Ask a driver what VMs take and what hosts have left; raise Unavailable where it does not tell."""
    place = f"{class_path_of(driver)}.capacity"

    def ask() -> Capacity | str:
        try:
            answer = driver.capacity(vms, hosts)
            return msgspec.convert(msgspec.to_builtins(answer), Capacity)
        except BaseException as error:
            log.exception("the driver failed", extra={"fields": {"call": place}})
            return describe_error(place, driver, error)

    answered = _in_thread(ask)
    done, _ = await asyncio.wait([answered], timeout=EXPECTED_CALL)
    if not done:
        answered.cancel()
        raise Unavailable(f"{place} did not return within {EXPECTED_CALL:.0f} s; ask again")
    answer = answered.result()
    if isinstance(answer, str):
        raise Unavailable(answer)
    return answer


def _in_thread(call: Callable[[], _Value]) -> "asyncio.Future[_Value]":
    return asyncio.get_running_loop().run_in_executor(THREADS, call)


def _call(driver: Driver, name: str, fields: dict[str, str], call: Callable[[Any], object]) -> ImpactOutcome:
    place = f"{class_path_of(driver)}.{name}"
    try:
        return _legible(check_outcome(place, call(getattr(driver, name))))
    except BaseException as error:
        log.exception("the driver failed", extra={"fields": {**fields, "call": place}})
        return ImpactFailed(describe_error(place, driver, error))


def describe_error(place: str, driver: object, error: BaseException) -> str:
    """Say what a call raised, and where: in the driver's own package, if it was raised there or on its behalf."""
    try:
        words = _in_a_line(str(error).encode(errors="backslashreplace").decode())  # fit for the journal
    except Exception:  # noqa: BLE001 - third-party code, too
        words = ""
    frames = [(str(frame.f_globals.get("__name__")), line) for frame, line in walk_tb(error.__traceback__)]
    package = type(driver).__module__.partition(".")[0]
    own = [each for each in frames if each[0].partition(".")[0] == package]
    raised_at = "".join(f" at {module}:{line}" for module, line in (own or frames)[-1:])
    return f"{place} raised {type(error).__name__}{': ' + words if words else ''}{raised_at}"


def check_outcome(place: str, answer: object) -> ImpactOutcome:
    """Return an answer that is an outcome, with fields of the right types; else a failure that says what it is."""
    if not isinstance(answer, ImpactDone | ImpactFailed | ImpactUnderway | ImpactNotBegun | ImpactUnknown):
        if iscoroutine(answer):
            answer.close()
            return ImpactFailed(
                f"{place} returned a coroutine, which is not an outcome: drivers are plain functions, not async"
            )
        said = answer.__name__ + ", a class" if isinstance(answer, type) else repr(answer)[:100]
        return ImpactFailed(f"{place} returned {said}, which is not an outcome")
    try:
        msgspec.convert(msgspec.structs.asdict(answer), type(answer))
        msgspec.json.encode(answer)  # the journal holds no text that is not Unicode
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
        return ImpactFailed(f"{place} returned a wrong {type(answer).__name__}: {error}")
    if isinstance(answer, ImpactUnderway) and answer.check_at.tzinfo is None:
        return ImpactFailed(f"{place} returned an Underway whose check_at has no time zone")
    return answer


def _legible(answer: ImpactOutcome) -> ImpactOutcome:
    """Return an outcome with its words in one line."""
    match answer:
        case ImpactDone(detail=words):
            return msgspec.structs.replace(answer, detail=_in_a_line(words))
        case ImpactFailed(reason=words) | ImpactUnknown(reason=words):
            return msgspec.structs.replace(answer, reason=_in_a_line(words))
        case ImpactUnderway(progress=words):
            return msgspec.structs.replace(answer, progress=_in_a_line(words))
    return answer


def _in_a_line(words: str) -> str:
    """Return a driver's words such that they end no line, do not speak to the terminal and do not go on for ever."""
    line = " ".join(words[:_LONGEST_WORDS].split())
    return line if line.isprintable() else "".join(each if each.isprintable() else " " for each in line)


def class_path_of(driver: object) -> str:
    return f"{type(driver).__module__}.{type(driver).__qualname__}"
