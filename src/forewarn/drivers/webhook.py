"""A driver that asks an operator's web service to do the impact, and hears from it what came of it.

    perform ──▶ POST, signed, the same webhook-id until the answer is clear ──▶ done | failed
                                                                        └─────▶ underway ──▶ callback, or asked again

That a message is about to be sent is on record before it is sent. After a crash in between the receiver is asked.
"""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self, cast
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from forewarn import posting, signature
from forewarn.clocks import Clock
from forewarn.config.tables import read_table
from forewarn.config.values import ENDPOINT, Endpoint
from forewarn.core.errors import BadInput, Unavailable, unknown
from forewarn.core.model import Vm
from forewarn.drivers import webhook_answers, webhook_checking
from forewarn.drivers.callbacks import Callback, Callbacks
from forewarn.drivers.ledger import Ledger, Page
from forewarn.drivers.record import KEPT_FOR, Locked
from forewarn.drivers.webhook_answers import Unclear
from forewarn.node.driver import Done, Failed, Impact, NotBegun, Outcome, Underway, Unknowable
from forewarn.posting import NoReply, Reply
from forewarn.wire.words import read_id

CHECK_AGAIN = timedelta(seconds=1)
TAKEN = "taken"
"""The step that says that the receiver took the message and is at work."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_PATIENT = 50
"""Tenths of a second that a callback waits for whoever holds the event's page."""


class WebhookSettings(msgspec.Struct, frozen=True):
    """The receiver, and how patient to be with it."""

    url: str
    """Where the message goes."""
    secret_file: str
    """The file that holds the secret both sides sign with, ``whsec_…``, and nothing else."""
    outcome_url: str = ""
    """Where the outcome is asked for; ``url`` when empty."""
    callback: str = ""
    """HOST:PORT on which the receiver may tell the outcome of its own accord; none when empty."""
    callback_url: str = ""
    """What the receiver is told to call back; ``http://`` and ``callback`` when empty."""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    """Seconds for one answer."""
    patience: timedelta = timedelta(minutes=5)
    """How long a message is sent again until there is a clear answer."""
    longest: timedelta = timedelta(hours=1)
    """How long an impact may be under way."""
    moves_live: bool = False
    switches: bool = False
    """Whether the receiver starts and stops VMs: it is asked to ``start`` and ``stop``."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a receiver is sent."""

    ask: str
    """``perform``, or ``outcome``."""
    event: str
    impact: Impact
    callback: str = ""


class SwitchMessage(msgspec.Struct, frozen=True):
    """What a receiver is sent that starts and stops VMs."""

    ask: str
    """``start``, or ``stop``."""
    vm: Vm


class WebhookDriver:
    """Has a web service of the operator's do the impact."""

    def __init__(self, settings: WebhookSettings, clock: Clock, directory: Path | None) -> None:
        self.moves_live = settings.moves_live
        self.switches = settings.switches
        self._settings = settings
        self._secret = _checked(settings)
        self._clock = clock
        self._closed = threading.Event()
        self._ledger = Ledger(directory, clock)
        self._awaited: dict[str, tuple[float, str]] = {}
        """Events that the receiver may call back for: when to ask, in the clock's seconds, and their progress."""
        self._attempted: dict[str, float] = {}
        """When events were attempted, in the clock's seconds, which pass whatever is done to the wall clock."""
        self._switching: dict[tuple[str, bool], float] = {}
        """Since when VMs are being started and stopped, in the clock's seconds."""
        self._callbacks: Callbacks | None = None
        self._callback_url = settings.callback_url
        if settings.callback:
            self._listen(settings.callback)

    @classmethod
    def from_settings(
        cls,
        settings: dict[str, object],
        clock: Clock,
        hurry: float,
        directory: Path | None = None,
    ) -> Self:
        return cls(read_table("driver 'webhook'", settings, WebhookSettings), clock, directory)

    @classmethod
    def check_settings(cls, settings: dict[str, object], *, is_running: bool) -> tuple[str, ...]:
        given = read_table("driver 'webhook'", settings, WebhookSettings)
        _checked(given)
        return tuple(
            webhook_checking.troubles(
                filter(None, (given.url, given.outcome_url)),
                Path(given.secret_file).expanduser(),
                _endpoint(given.callback) if given.callback else None,
                is_running=is_running,
            )
        )

    def perform(self, impact: Impact) -> Outcome:
        try:
            with self._ledger.held(impact.event.id) as page:
                if page.ending:
                    return page.ending
                if page.step(TAKEN):
                    return self._later()
                page.begin(impact)
                self._age_of(impact)
                return self._send(impact, page)
        except Locked:
            return self._later()
        except OSError as error:
            return Failed(f"the message could not be recorded, so it was not sent: {error}")

    def outcome_of(self, impact: Impact) -> Outcome:
        try:
            page = self._ledger.read(impact.event.id)
        except Locked:
            return self._later()
        except OSError as error:
            return Unknowable(f"the record of the message cannot be read: {error}")
        if page.ending:
            self._forget(impact.event.id)
            return page.ending
        ask_at, progress = self._awaited.get(impact.event.id, (0.0, ""))
        if self._clock.seconds() < ask_at:
            return self._later(progress)
        outcome = self._ask(impact, page)
        if not isinstance(outcome, Done | Failed | Unknowable):
            return outcome
        self._forget(impact.event.id)
        try:
            with self._ledger.held(impact.event.id) as page:
                return page.ending or page.end(outcome)
        except (Locked, OSError):
            return self._later()

    def switch(self, vm: Vm, *, on: bool) -> Outcome:
        """Ask the receiver once; what is not clear is asked again, until ``patience`` is over."""
        ask, now, key = "start" if on else "stop", self._clock.now(), (vm.name, on)
        since = self._switching.setdefault(key, self._clock.seconds())
        answer: Outcome | Unclear
        try:
            reply = self._deliver(self._settings.url, uuid4().hex, msgspec.json.encode(SwitchMessage(ask, vm)))
            answer = webhook_answers.of_perform(reply, [vm.name], now)
        except NoReply as error:
            answer = Unclear(str(error))
        if isinstance(answer, Unclear):
            if self._clock.seconds() - since < self._settings.patience.total_seconds():
                return Underway(now + timedelta(seconds=max(webhook_answers.CHECK_AFTER, answer.wait)))
            answer = Failed(answer.why)
        if isinstance(answer, Underway):
            if self._clock.seconds() - since < self._settings.longest.total_seconds():
                return answer
            answer = Failed(f"nothing was heard of its end within {self._settings.longest}")
        self._switching.pop(key, None)
        return answer

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            if self._callbacks:
                self._callbacks.close()
            self._ledger.close()

    def _send(self, impact: Impact, page: Page) -> Outcome:
        """Send the message until there is a clear answer."""
        may_have_arrived, pause = False, _FIRST_PAUSE
        give_up_at = self._clock.seconds() + self._settings.patience.total_seconds()
        while True:
            try:
                reply = self._post(self._settings.url, impact.event.id, "perform", impact)
                answer = webhook_answers.of_perform(reply, _names(impact), self._clock.now())
            except NoReply as error:
                answer = Unclear(str(error))
                may_have_arrived = may_have_arrived or error.may_have_arrived
            else:
                # Whoever asks for more time at the door has not let it in.
                may_have_arrived = may_have_arrived or reply.status not in {429, 503}
            match answer:
                case Done() | Failed() | Unknowable():
                    return page.end(answer)
                case Underway():
                    page.note(TAKEN)
                    return self._look_out(impact, answer)
                case Unclear(why=why, wait=wait):
                    if self._clock.seconds() + max(pause, wait) > give_up_at:
                        return page.end(Unknowable(why) if may_have_arrived else Failed(why))
                    if self._closed.wait(max(pause, wait)):
                        return self._later()
                    pause = min(2 * pause, _LONGEST_PAUSE)
                case NotBegun():
                    return page.end(Failed("the receiver did not begin"))

    def _ask(self, impact: Impact, page: Page) -> Outcome:
        """Ask the receiver what came of it; whatever it is, it is not written down here."""
        now = self._clock.now()
        url = self._settings.outcome_url or self._settings.url
        try:
            reply = self._post(url, f"{impact.event.id}-{uuid4().hex[:8]}", "outcome", impact)
            answer = webhook_answers.of_question(reply, _names(impact), now)
            is_refused = 400 <= reply.status < 500 and isinstance(answer, Unclear)
        except NoReply as error:
            answer, is_refused = Unclear(str(error)), False
        if not isinstance(answer, Unclear | Underway):
            return answer
        if page.begun is None and is_refused and not self._ledger.may_have_forgotten(impact.attempted_at):
            return NotBegun()
        if self._age_of(impact) > self._settings.longest:
            last = f"; last {answer.why}" if isinstance(answer, Unclear) else ""
            return Unknowable(f"nothing was heard of its end within {self._settings.longest}{last}")
        if isinstance(answer, Underway):
            return self._look_out(impact, answer)
        if is_refused and not page.step(TAKEN):
            return Unknowable(f"the message may have arrived, and the receiver does not tell: {answer.why}")
        return self._look_out(
            impact, Underway(now + timedelta(seconds=max(webhook_answers.CHECK_AFTER, answer.wait)))
        )

    def _look_out(self, impact: Impact, underway: Underway) -> Underway:
        """Leave the receiver alone until then; where it may call back, the record is looked into meanwhile."""
        if self._callbacks is None:
            return underway
        self._awaited[impact.event.id] = self._seconds_at(underway), underway.progress
        return self._later(underway.progress)

    def _seconds_at(self, underway: Underway) -> float:
        return self._clock.seconds() + (underway.check_at - self._clock.now()).total_seconds()

    def _age_of(self, impact: Impact) -> timedelta:
        """Return how long ago an event was attempted; one that seems to be months old was attempted now."""
        seconds, age = self._clock.seconds(), self._clock.now() - impact.attempted_at
        known = timedelta() <= age < KEPT_FOR
        at = self._attempted.setdefault(impact.event.id, seconds - (age.total_seconds() if known else 0.0))
        return timedelta(seconds=seconds - at)

    def _forget(self, event: str) -> None:
        self._awaited.pop(event, None)
        self._attempted.pop(event, None)

    def _post(self, url: str, id_: str, ask: str, impact: Impact) -> Reply:
        return self._deliver(url, id_, msgspec.json.encode(Message(ask, impact.event.id, impact, self._callback_url)))

    def _deliver(self, url: str, id_: str, body: bytes) -> Reply:
        # The receiver checks the time, so it is that of the wall.
        headers = signature.sign(self._secret, id_, self._clock.now(), body)
        message = posting.Message(url, body, {"Content-Type": "application/json", **headers})
        try:
            return posting.send(message, self._settings.timeout)
        except NoReply as error:
            why = f"{message.place} gives no answer: {error}"
            raise NoReply(why, may_have_arrived=error.may_have_arrived) from None

    def _listen(self, callback: str) -> None:
        self._callbacks = Callbacks(_endpoint(callback), self._secret, self._clock.now, self._take)
        host = callback.rpartition(":")[0]
        self._callback_url = self._callback_url or f"http://{host}:{self._callbacks.port}/"

    def _take(self, said: Callback) -> None:
        """Write down what the receiver says of its own accord."""
        for _ in range(_PATIENT):
            try:
                return self._write_down(said)
            except Locked:
                self._closed.wait(0.1)
        raise Unavailable("the event is busy; send it again")

    def _write_down(self, said: Callback) -> None:
        event = read_id(said.event)
        if "/" in event or self._ledger.read(event).begun is None:
            raise unknown("event", said.event, ())
        with self._ledger.held(event) as page:
            if page.ending:
                return
            outcome = webhook_answers.outcome_of(said, _names(page.begun), self._clock.now())
            if isinstance(outcome, Underway):
                if page.step(TAKEN) is None:
                    page.note(TAKEN)
                before, _ = self._awaited.get(event, (0.0, ""))
                self._awaited[event] = max(before, self._seconds_at(outcome)), outcome.progress
            elif not isinstance(outcome, NotBegun):
                page.end(outcome)

    def _later(self, progress: str = "") -> Underway:
        return Underway(self._clock.now() + CHECK_AGAIN, progress)


def _names(impact: Impact | None) -> list[str]:
    return [vm.name for vm in impact.vms] if impact else []


def _checked(settings: WebhookSettings) -> str:
    """Return the secret; raise BadInput that names what is wrong with the settings."""
    for name in ("url", "outcome_url", "callback_url"):
        _check_url(name, getattr(settings, name), may_be_empty=name != "url")
    return _secret(Path(settings.secret_file).expanduser())


def _endpoint(callback: str) -> Endpoint:
    try:
        return cast("Endpoint", ENDPOINT.read(callback))
    except ValueError:
        raise BadInput(f"setting 'callback' of driver 'webhook': expected {ENDPOINT.expected}") from None


def _check_url(name: str, url: str, *, may_be_empty: bool) -> None:
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_fine = False
    if not is_fine and not (may_be_empty and not url):
        raise BadInput(f"setting {name!r} of driver 'webhook': expected an http:// or https:// address")


def _secret(path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").strip()
        signature.key_of(secret)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise BadInput(f"setting 'secret_file' of driver 'webhook': {path}: {said}") from None
    except BadInput as error:
        said = str(error).partition(";")[0]
        raise BadInput(f"setting 'secret_file' of driver 'webhook': {path}: {said}") from None
    return secret
