"""Scheduled events for an application's tests: a running service, real HTTP, and a clock that the test advances.

``__tracebackhide__`` lets pytest show the line of the test that expected something, and none of ours.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import cached_property
from inspect import CORO_CREATED, getcoroutinestate
from typing import NoReturn

from forewarn.core.errors import BadInput
from forewarn.emulator import Emulator
from forewarn.emulator.arguments import Duration, duration_of
from forewarn.emulator.handles import EventHandle
from forewarn.emulator.verbs import EMULATOR

URL_VARIABLE = "SCHEDULED_EVENTS_URL"
"""Environment variable with the URL of the first VM's document, without the api-version."""


class ScheduledEvents(Emulator):
    """An emulator with expectations; a failure shows what happened instead."""

    @cached_property
    def _begun(self) -> list[tuple[str, Coroutine[object, object, EventHandle]]]:
        """The expectations of coroutines, by name."""
        return []

    @property
    def events_url(self) -> str:
        """URL of the first VM's document, without the api-version."""
        return f"{self.url}/metadata/scheduledevents"

    def expect_approved(
        self, event: EventHandle | None = None, *, by: str = "", seconds: Duration = 5.0
    ) -> EventHandle:
        """Return the event once it is approved; fail when it is not, within so many seconds of the real clock.

        Without ``event`` any event will do, without ``by`` an approval by any VM or operator.
        """
        __tracebackhide__ = True
        self._check(event, by)
        return self._expect(event, "approved", by, _is_approved, seconds)

    def expect_fetched(
        self, event: EventHandle | None = None, *, by: str = "", seconds: Duration = 5.0
    ) -> EventHandle:
        """Return the event once a VM has fetched it; fail if none does in time."""
        __tracebackhide__ = True
        self._check(event, by)
        return self._expect(event, "fetched", by, _is_fetched, seconds)

    def expect_not_approved(self, event: EventHandle | None = None, *, by: str = "") -> None:
        """Fail when the event, or any, has been approved by now."""
        __tracebackhide__ = True
        self._check(event, by)
        approved = [each for each in self._among(event) if _is_approved(each, by)]
        if approved:
            self._fail(f"nobody should have approved {approved[0]!r}")

    def aexpect_approved(
        self, event: EventHandle | None = None, *, by: str = "", seconds: Duration = 5.0
    ) -> Coroutine[object, object, EventHandle]:
        """Do as ``expect_approved`` does, while the event loop of the test goes on; to be awaited."""
        return self._later(self.expect_approved, event, by, seconds)

    def aexpect_fetched(
        self, event: EventHandle | None = None, *, by: str = "", seconds: Duration = 5.0
    ) -> Coroutine[object, object, EventHandle]:
        """Do as ``expect_fetched`` does, while the event loop of the test goes on; to be awaited."""
        return self._later(self.expect_fetched, event, by, seconds)

    def check_awaited(self) -> None:
        """Fail when an expectation of a coroutine was never awaited: it has expected nothing."""
        __tracebackhide__ = True
        forgotten = [(name, each) for name, each in self._begun if getcoroutinestate(each) == CORO_CREATED]
        self._begun.clear()
        for _, coroutine in forgotten:
            coroutine.close()
        if forgotten:
            name = f"a{forgotten[0][0]}"
            raise AssertionError(f"{name} was never awaited, so nothing was expected; write: await ….{name}(…)")

    def stop(self) -> None:
        __tracebackhide__ = True
        super().stop()
        # Do not hide another failure.
        if sys.exc_info()[0] is None:
            self.check_awaited()

    def _later(
        self, expect: Callable[..., EventHandle], event: EventHandle | None, by: str, seconds: Duration
    ) -> Coroutine[object, object, EventHandle]:
        coroutine = asyncio.to_thread(expect, event, by=by, seconds=seconds)
        self._begun.append((expect.__name__, coroutine))
        return coroutine

    def _expect(
        self,
        event: EventHandle | None,
        what: str,
        by: str,
        does_hold: Callable[[EventHandle, str], bool],
        seconds: Duration,
    ) -> EventHandle:
        __tracebackhide__ = True

        def is_met() -> bool:
            return any(does_hold(each, by) for each in self._among(event))

        within = duration_of(seconds, "seconds")
        if not is_met() and _is_in_event_loop():
            raise BadInput(
                f"expect_{what} was called in a running event loop, which stands still while it waits;"
                f" write: await ….aexpect_{what}(…)"
            )
        if not self.wait_for(is_met, within):
            said = f"{what} by {by or 'anybody'}"
            self._fail(f"{event!r} was not {said}" if event else f"no event was {said}")
        return next(each for each in self._among(event) if does_hold(each, by))

    def _check(self, event: object, by: str) -> None:
        __tracebackhide__ = True
        if event is not None and not isinstance(event, EventHandle):
            raise BadInput(f"an event is what vm.reboot() and the like return, not {event!r}; leave it out for any")
        if by and by != EMULATOR.name:
            self.vm(by)

    def _among(self, event: EventHandle | None) -> tuple[EventHandle, ...]:
        return self.events if event is None else (event,)

    def _fail(self, what: str) -> NoReturn:
        __tracebackhide__ = True
        events = [f"  {each!r}, approved by {', '.join(each.approved_by) or 'nobody'}" for each in self.events]
        requests = [f"  {each.vm}: {each.method} {each.target} -> {each.status}" for each in self.requests[-10:]]
        raise AssertionError(
            "\n".join([what, "events:", *(events or ["  none"]), "last requests:", *(requests or ["  none"])])
        )


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _is_approved(event: EventHandle, by: str) -> bool:
    return by in event.approved_by if by else bool(event.approved_by)


def _is_fetched(event: EventHandle, by: str) -> bool:
    return by in event.fetched_by if by else bool(event.fetched_by)
