"""Driver ``webhook``: asks an operator's web service to carry out the impact, and receives the outcome.

    perform ──▶ POST, signed, same webhook-id until the reply is clear ──▶ done | failed
                                                                    └────▶ underway ──▶ callback, or polled

The intention to send is recorded before sending. After a crash in between the receiver is asked for the outcome.
"""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self, cast
from uuid import uuid4

import msgspec

from forewarn import signature
from forewarn.clocks import Clock
from forewarn.config.tables import read_table
from forewarn.config.values import ENDPOINT, ListenAddress
from forewarn.core.errors import BadInput, Unavailable, unknown
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.model import Vm
from forewarn.core.web_addresses import split_web_address
from forewarn.drivers import webhook_checks, webhook_replies
from forewarn.drivers.progress_store import ProgressFile, ProgressStore
from forewarn.drivers.run_record import KEPT_FOR, RecordLocked
from forewarn.drivers.term_store import TermRefused
from forewarn.drivers.webhook_callbacks import Callback, CallbackListener
from forewarn.drivers.webhook_replies import UnclearReply
from forewarn.http.web_requests import NoWebResponse, WebRequest, WebResponse, send
from forewarn.node.driver import (
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    refuse_type,
)
from forewarn.wire.azure_names import read_id

CHECK_AGAIN = timedelta(seconds=1)
TAKEN = "taken"
"""Step: the receiver has accepted the message and is working on it."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_LOCK_ATTEMPTS = 50
"""Tenths of a second that a callback waits for the lock of the event's progress file."""


class WebhookDriverSettings(msgspec.Struct, frozen=True):
    """The receiver and its timeouts."""

    url: str
    """Where requests are sent."""
    secret_file: str
    """File with the shared signing secret, ``whsec_…``, and nothing else."""
    outcome_url: str = ""
    """Where the outcome is requested; ``url`` when empty."""
    callback: str = ""
    """HOST:PORT on which the receiver may report the outcome by a callback; no callbacks when empty."""
    callback_url: str = ""
    """The callback URL that is sent to the receiver; ``http://`` and ``callback`` when empty."""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    """Timeout of one request, in seconds."""
    patience: timedelta = timedelta(minutes=5)
    """How long a request is repeated until there is a clear reply."""
    longest: timedelta = timedelta(hours=1)
    """How long an impact may be under way."""
    moves_live: bool = False
    switches: bool = False
    """Whether the receiver starts and stops VMs (``start`` and ``stop``)."""
    fences_terms: bool = False
    """Whether the receiver stores the highest term, and refuses a lower one with the status 409."""


class ImpactMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Request for an impact."""

    ask: str
    """``perform``, or ``outcome``."""
    event: str
    impact: Impact
    callback: str = ""


class SwitchMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Request to start or stop a VM."""

    ask: str
    """``start``, or ``stop``."""
    vm: Vm
    term: int = 0


class WebhookDriver:
    """Sends impacts to an operator's web service."""

    has_local_records = True

    def __init__(self, settings: WebhookDriverSettings, clock: Clock, directory: Path | None) -> None:
        self.moves_live = settings.moves_live
        self.switches = settings.switches
        self.fences_terms = settings.fences_terms
        self._settings = settings
        self._secret = _checked(settings)
        self._clock = clock
        self._closed = threading.Event()
        self._progress_store = ProgressStore(directory, clock)
        self._awaited: dict[str, tuple[float, str]] = {}
        """Events with a possible callback: when to poll, in the clock's seconds, and their progress."""
        self._attempted: dict[str, float] = {}
        """Time of each attempt in the clock's seconds, which do not depend on the wall clock."""
        self._switching: dict[tuple[str, bool], float] = {}
        """Start time of VM switches in progress, in the clock's seconds."""
        self._callbacks: CallbackListener | None = None
        self._callback_url = settings.callback_url
        if settings.callback:
            self._listen(settings.callback)

    @classmethod
    def from_settings(
        cls, settings: dict[str, object], clock: Clock, hurry: float, directory: Path | None = None
    ) -> Self:
        return cls(read_table("driver 'webhook'", settings, WebhookDriverSettings), clock, directory)

    @classmethod
    def check_settings(cls, settings: dict[str, object], *, is_running: bool) -> tuple[str, ...]:
        given = read_table("driver 'webhook'", settings, WebhookDriverSettings)
        _checked(given)
        return tuple(
            webhook_checks.find_problems(
                filter(None, (given.url, given.outcome_url)),
                Path(given.secret_file).expanduser(),
                _endpoint(given.callback) if given.callback else None,
                is_running=is_running,
            )
        )

    def perform(self, impact: Impact) -> ImpactOutcome:
        if impact.event.type not in EVENT_TYPES:
            return refuse_type(impact.event)
        try:
            with self._progress_store.held(impact.event.id) as progress_file:
                if progress_file.ending:
                    return progress_file.ending
                if progress_file.step(TAKEN):
                    return self._later()
                progress_file.begin(impact)
                self._age_of(impact)
                return self._send(impact, progress_file)
        except RecordLocked:
            return self._later()
        except TermRefused as error:
            return ImpactUnknown(str(error))
        except OSError as error:
            return ImpactFailed(f"cannot record the message, so it was not sent: {error}")

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        try:
            progress_file = self._progress_store.read(impact.event.id)
        except RecordLocked:
            return self._later()
        except OSError as error:
            return ImpactUnknown(f"cannot read the record of the message: {error}")
        if progress_file.ending and not impact.attempted_elsewhere:
            self._forget(impact.event.id)
            return progress_file.ending
        ask_at, progress = self._awaited.get(impact.event.id, (0.0, ""))
        if self._clock.seconds() < ask_at:
            return self._later(progress)
        try:
            outcome = self._ask(impact, progress_file)
        except TermRefused as error:
            return ImpactUnknown(str(error))
        if not isinstance(outcome, ImpactDone | ImpactFailed | ImpactUnknown):
            return outcome
        self._forget(impact.event.id)
        if impact.attempted_elsewhere:
            return outcome  # what is recorded here is of an earlier attempt
        try:
            with self._progress_store.held(impact.event.id) as progress_file:
                return progress_file.ending or progress_file.end(outcome)
        except (RecordLocked, OSError):
            return self._later()

    def switch(self, vm: Vm, *, on: bool, term: int = 0) -> ImpactOutcome:
        """Send one request; an unclear reply is repeated until ``patience`` is over."""
        ask, now, key = "start" if on else "stop", self._clock.now(), (vm.name, on)
        since = self._switching.setdefault(key, self._clock.seconds())
        answer: ImpactOutcome | UnclearReply
        try:
            message = msgspec.json.encode(SwitchMessage(ask, vm, term))
            reply = self._deliver(self._settings.url, uuid4().hex, message, _term_headers(term))
            answer = webhook_replies.read_perform_reply(reply, [vm.name], now)
        except NoWebResponse as error:
            answer = UnclearReply(str(error))
        if isinstance(answer, UnclearReply):
            if self._clock.seconds() - since < self._settings.patience.total_seconds():
                return ImpactUnderway(now + timedelta(seconds=max(webhook_replies.CHECK_AFTER, answer.wait)))
            answer = ImpactFailed(answer.why)
        if isinstance(answer, ImpactUnderway):
            if self._clock.seconds() - since < self._settings.longest.total_seconds():
                return answer
            answer = ImpactFailed(f"no result was received within {self._settings.longest}")
        self._switching.pop(key, None)
        return answer

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            if self._callbacks:
                self._callbacks.close()
            self._progress_store.close()

    def _send(self, impact: Impact, progress_file: ProgressFile) -> ImpactOutcome:
        """Send the message until there is a clear reply."""
        may_have_arrived, pause = False, _FIRST_PAUSE
        give_up_at = self._clock.seconds() + self._settings.patience.total_seconds()
        while True:
            try:
                reply = self._post(self._settings.url, impact.event.id, "perform", impact)
                answer = webhook_replies.read_perform_reply(reply, _names(impact), self._clock.now())
            except NoWebResponse as error:
                answer = UnclearReply(str(error))
                may_have_arrived = may_have_arrived or error.may_have_arrived
            else:
                # 429 and 503 mean that the receiver did not accept the message.
                may_have_arrived = may_have_arrived or reply.status not in {429, 503}
            match answer:
                case ImpactDone() | ImpactFailed() | ImpactUnknown():
                    return progress_file.end(answer)
                case ImpactUnderway():
                    progress_file.note(TAKEN)
                    return self._defer(impact, answer)
                case UnclearReply(why=why, wait=wait):
                    if self._clock.seconds() + max(pause, wait) > give_up_at:
                        return progress_file.end(ImpactUnknown(why) if may_have_arrived else ImpactFailed(why))
                    if self._closed.wait(max(pause, wait)):
                        return self._later()
                    pause = min(2 * pause, _LONGEST_PAUSE)
                case ImpactNotBegun():
                    return progress_file.end(ImpactFailed("the receiver did not begin"))

    def _ask(self, impact: Impact, progress_file: ProgressFile) -> ImpactOutcome:
        """Ask the receiver for the outcome; nothing is recorded here."""
        now = self._clock.now()
        url = self._settings.outcome_url or self._settings.url
        try:
            reply = self._post(url, f"{impact.event.id}-{uuid4().hex[:8]}", "outcome", impact)
            answer = webhook_replies.read_outcome_reply(reply, _names(impact), now)
            is_refused = 400 <= reply.status < 500 and isinstance(answer, UnclearReply)
        except NoWebResponse as error:
            answer, is_refused = UnclearReply(str(error)), False
        if not isinstance(answer, UnclearReply | ImpactUnderway):
            return answer
        if (
            progress_file.begun is None
            and is_refused
            and not impact.attempted_elsewhere
            and not self._progress_store.may_have_forgotten(impact.attempted_at)
        ):
            return ImpactNotBegun()
        if self._age_of(impact) > self._settings.longest:
            last = f"; last {answer.why}" if isinstance(answer, UnclearReply) else ""
            return ImpactUnknown(f"no result was received within {self._settings.longest}{last}")
        if isinstance(answer, ImpactUnderway):
            return self._defer(impact, answer)
        if is_refused and not progress_file.step(TAKEN):
            return ImpactUnknown(f"the message may have arrived, and the receiver gives no outcome: {answer.why}")
        return self._defer(
            impact, ImpactUnderway(now + timedelta(seconds=max(webhook_replies.CHECK_AFTER, answer.wait)))
        )

    def _defer(self, impact: Impact, underway: ImpactUnderway) -> ImpactUnderway:
        """Do not poll the receiver before ``check_at``; if it may call back, check the record meanwhile."""
        if self._callbacks is None:
            return underway
        self._awaited[impact.event.id] = self._seconds_at(underway), underway.progress
        return self._later(underway.progress)

    def _seconds_at(self, underway: ImpactUnderway) -> float:
        return self._clock.seconds() + (underway.check_at - self._clock.now()).total_seconds()

    def _age_of(self, impact: Impact) -> timedelta:
        """Return the time since the attempt; an age of months, or a negative one, counts as zero."""
        seconds, age = self._clock.seconds(), self._clock.now() - impact.attempted_at
        known = timedelta() <= age < KEPT_FOR
        at = self._attempted.setdefault(impact.event.id, seconds - (age.total_seconds() if known else 0.0))
        return timedelta(seconds=seconds - at)

    def _forget(self, event: str) -> None:
        self._awaited.pop(event, None)
        self._attempted.pop(event, None)

    def _post(self, url: str, id_: str, ask: str, impact: Impact) -> WebResponse:
        message = msgspec.json.encode(ImpactMessage(ask, impact.event.id, impact, self._callback_url))
        reply = self._deliver(url, id_, message, _term_headers(impact.term, impact.attempt))
        if self.fences_terms and reply.status == webhook_replies.REFUSED:
            # It is not recorded: a message of a later term may be accepted.
            raise TermRefused(webhook_replies.describe_refusal(reply))
        return reply

    def _deliver(self, url: str, id_: str, body: bytes, more: dict[str, str]) -> WebResponse:
        # The receiver checks the timestamp, so use the wall clock.
        headers = signature.sign(self._secret, id_, self._clock.now(), body) | more
        message = WebRequest(url, body, {"Content-Type": "application/json", **headers})
        try:
            return send(message, self._settings.timeout)
        except NoWebResponse as error:
            why = f"{message.place} did not answer: {error}"
            raise NoWebResponse(why, may_have_arrived=error.may_have_arrived) from None

    def _listen(self, callback: str) -> None:
        self._callbacks = CallbackListener(_endpoint(callback), self._secret, self._clock.now, self._take)
        host = callback.rpartition(":")[0]
        self._callback_url = self._callback_url or f"http://{host}:{self._callbacks.port}/"

    def _take(self, said: Callback) -> None:
        """Record the outcome that the receiver reports by a callback."""
        for _ in range(_LOCK_ATTEMPTS):
            try:
                return self._record(said)
            except RecordLocked:
                self._closed.wait(0.1)
        raise Unavailable("the event is busy; send it again")

    def _record(self, said: Callback) -> None:
        event = read_id(said.event)
        if "/" in event or self._progress_store.read(event).begun is None:
            raise unknown("event", said.event, ())
        with self._progress_store.held(event) as progress_file:
            if progress_file.ending:
                return
            outcome = webhook_replies.outcome_of(said, _names(progress_file.begun), self._clock.now())
            if isinstance(outcome, ImpactUnderway):
                if progress_file.step(TAKEN) is None:
                    progress_file.note(TAKEN)
                before, _ = self._awaited.get(event, (0.0, ""))
                self._awaited[event] = max(before, self._seconds_at(outcome)), outcome.progress
            elif not isinstance(outcome, ImpactNotBegun):
                progress_file.end(outcome)

    def _later(self, progress: str = "") -> ImpactUnderway:
        return ImpactUnderway(self._clock.now() + CHECK_AGAIN, progress)


def _term_headers(term: int, attempt: int = 0) -> dict[str, str]:
    """Return what the signed body says too, for a proxy that does not read it."""
    headers = {"forewarn-term": str(term), "forewarn-attempt": str(attempt)}
    return {name: value for name, value in headers.items() if term and value != "0"}


def _names(impact: Impact | None) -> list[str]:
    return [vm.name for vm in impact.vms] if impact else []


def _checked(settings: WebhookDriverSettings) -> str:
    """Return the secret; raise BadInput that names the invalid setting."""
    for name in ("url", "outcome_url", "callback_url"):
        _check_url(name, getattr(settings, name), may_be_empty=name != "url")
    return _secret(Path(settings.secret_file).expanduser())


def _endpoint(callback: str) -> ListenAddress:
    try:
        return cast("ListenAddress", ENDPOINT.read(callback))
    except ValueError:
        raise BadInput(f"setting 'callback' of driver 'webhook': expected {ENDPOINT.expected}") from None


def _check_url(name: str, url: str, *, may_be_empty: bool) -> None:
    if split_web_address(url) is None and (url or not may_be_empty):
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
