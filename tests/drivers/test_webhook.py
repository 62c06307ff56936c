"""The webhook driver with a real receiver: signed, sent again until the answer is clear, told back."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.clocks import Clock, ManualClock, SystemClock
from forewarn.core.errors import BadInput
from forewarn.core.model import Vm
from forewarn.drivers.webhook import WebhookDriver
from forewarn.node.driver import (
    Driver,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    can_switch,
)
from forewarn.signature import sign
from forewarn.testing.driver_contract import (
    DriverContract,
    DriverTrial,
    FencingDriverContract,
    FencingDriverTrial,
    in_term,
)
from forewarn.wire.azure_names import show_id
from tests.drivers import receiver as receiver_module
from tests.drivers.impacts import impact as impact_at
from tests.drivers.receiver import SECRET, Receiver

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


class WebhookHarness:
    """A receiver and the drivers that ask it."""

    def __init__(self, receiver: Receiver, place: Path) -> None:
        self.receiver = receiver
        self.place = place
        (place / "secret").write_text(f"{SECRET}\n")
        self.clock: Clock = SystemClock()
        self._made: list[WebhookDriver] = []

    def driver(self, **more: object) -> WebhookDriver:
        return self.driver_on("records", **more)

    def driver_on(self, node: str, **more: object) -> WebhookDriver:
        settings = {"url": self.receiver.url, "secret_file": str(self.place / "secret"), **more}
        self._made.append(WebhookDriver.from_settings(settings, self.clock, 1.0, self.place / node))
        return self._made[-1]

    def close(self) -> None:
        for driver in self._made:
            driver.close()


@pytest.fixture
def harness(receiver: Receiver, tmp_path: Path) -> Iterator[WebhookHarness]:
    harness = WebhookHarness(receiver, tmp_path)
    yield harness
    harness.close()


def impact(name: str = "one") -> Impact:
    return impact_at(name=name, attempted_at=datetime.now(UTC))


def when_ended(driver: Driver, asked: Impact, outcome: ImpactOutcome | None = None) -> ImpactOutcome:
    outcome = outcome or driver.outcome_of(asked)
    while isinstance(outcome, ImpactUnderway):
        time.sleep(0.05)
        outcome = driver.outcome_of(asked)
    return outcome


class WebhookTrial(DriverTrial):
    """The contract with a real receiver."""

    def __init__(self, harness: WebhookHarness) -> None:
        self._site = harness

    def make(self, **more: object) -> Driver:
        return self._site.driver(**more)

    def times_done(self, event_id: str) -> int:
        return self._site.receiver.done.count(event_id)

    def wait_until(self, at: datetime) -> None:
        threading.Event().wait(0.02)

    def crash_during(self, impact: Impact) -> None:
        """The answer is lost on the way, and so is the driver."""
        receiver = self._site.receiver
        receiver.answers = [None]
        driver = self._site.driver()
        taken = len(receiver.messages)

        def close_when_taken() -> None:
            while len(receiver.messages) == taken:
                time.sleep(0.01)
            driver.close()

        closing = threading.Thread(target=close_when_taken, daemon=True)
        closing.start()
        driver.perform(impact)
        closing.join(60)


class TestWebhookDriver(DriverContract):
    """It keeps the contract."""

    @pytest.fixture
    def trial(self, harness: WebhookHarness) -> DriverTrial:
        return WebhookTrial(harness)


class FencingWebhookTrial(WebhookTrial, FencingDriverTrial):
    """The contract with a receiver that fences terms."""

    def make(self, **more: object) -> Driver:
        self._site.receiver.fences = True
        return self._site.driver(fences_terms=True, **more)

    def make_elsewhere(self) -> Driver:
        return self._site.driver_on("elsewhere", fences_terms=True)


class TestFencingWebhookDriver(FencingDriverContract):
    """It keeps the contract with a receiver that fences terms."""

    @pytest.fixture
    def trial(self, harness: WebhookHarness) -> FencingDriverTrial:
        return FencingWebhookTrial(harness)


def test_term_and_attempt_are_in_the_signed_body_and_in_headers(harness: WebhookHarness) -> None:
    """With one node there is no term, and the message is that of earlier releases."""
    driver = harness.driver()
    driver.perform(impact("alone"))
    driver.perform(in_term(impact("one of several"), 3))

    alone, one_of_several = harness.receiver.messages
    assert "term" not in alone["impact"]
    assert (one_of_several["impact"]["term"], one_of_several["impact"]["attempt"]) == (3, 3)
    assert harness.receiver.term_headers == [("", ""), ("3", "3")]


def test_a_refused_message_is_no_end_for_a_later_term(harness: WebhookHarness) -> None:
    """A node whose message was refused may lead again; the event that is still Started can be performed then."""
    harness.receiver.fences, harness.receiver.highest_term = True, 2
    driver, asked = harness.driver(fences_terms=True), impact()
    refused = ImpactUnknown("the receiver refused this term: answer 409: a leader of term 2 was here")

    assert driver.perform(in_term(asked, 1)) == refused
    assert driver.outcome_of(in_term(asked, 1)) == refused
    assert driver.outcome_of(in_term(asked, 3, is_elsewhere=True)) == ImpactNotBegun()
    assert driver.perform(in_term(asked, 3)) == ImpactDone(detail="by hand")
    assert harness.receiver.done == [asked.event.id]


def test_409_is_a_failure_of_a_receiver_that_does_not_fence(harness: WebhookHarness) -> None:
    """It had that meaning before there were terms."""
    harness.receiver.answers = [(409, b"busy")]

    assert harness.driver().perform(impact()) == ImpactFailed("the receiver refused: answer 409: busy")


def test_what_another_node_did_later_counts_more_than_the_own_record(harness: WebhookHarness) -> None:
    """The record here is of an earlier attempt; the receiver knows both."""
    driver, asked = harness.driver(fences_terms=True), impact()
    harness.receiver.answers = [(200, b'{"outcome": "failed", "detail": "no room"}')]

    assert driver.perform(in_term(asked, 1)) == ImpactFailed("no room")
    assert driver.outcome_of(in_term(asked, 3, is_elsewhere=True)) == ImpactDone(detail="by hand")


def test_a_request_to_switch_carries_the_term(harness: WebhookHarness) -> None:
    """A receiver that fences refuses one of a leader that was replaced."""
    harness.receiver.fences = True
    driver = harness.driver(switches=True, fences_terms=True)

    assert driver.switch(Vm("web-0", "web"), on=True, term=5) == ImpactDone()
    late = driver.switch(Vm("web-0", "web"), on=False, term=4)
    assert late == ImpactFailed("the receiver refused: answer 409: a leader of term 5 was here")
    assert harness.receiver.switched == [("start", "web-0")]


def test_the_receiver_is_told_everything(harness: WebhookHarness) -> None:
    """The message is signed, names the event, and holds the impact and where to call back."""
    asked = impact()
    driver = harness.driver(callback_url="https://forewarn.example.org/back")

    assert driver.perform(asked) == ImpactDone(detail="by hand")
    (message,) = harness.receiver.messages
    assert (message["ask"], message["event"]) == ("perform", asked.event.id)
    assert message["impact"]["event"]["type"] == "reboot"
    assert [vm["name"] for vm in message["impact"]["vms"]] == ["web-0"]
    assert message["callback"] == "https://forewarn.example.org/back"


@pytest.mark.parametrize("unclear", [None, (500, b""), (503, b"starting"), (429, b""), (200, b"<html>")])
def test_it_is_sent_again_under_the_same_id(harness: WebhookHarness, unclear: tuple[int, bytes] | None) -> None:
    """Whatever is no clear answer is followed by the same message, and the receiver does it once."""
    harness.receiver.answers = [unclear]
    asked = impact()

    assert harness.driver().perform(asked) == ImpactDone(detail="by hand")
    assert harness.receiver.ids == [asked.event.id] * 2
    assert harness.receiver.done == [asked.event.id]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ((200, b'{"outcome": "done", "hosts": {"web-0": "h2"}}'), ImpactDone({"web-0": "h2"})),
        (
            (200, b'{"outcome": "done", "hosts": {"x": "h2"}}'),
            ImpactDone(detail="(hosts named for VMs that are not in the event: x)"),
        ),
        ((200, b'{"outcome": "failed", "detail": "no\\nroom"}'), ImpactFailed("no room")),
        ((200, b'{"outcome": "unknown"}'), ImpactUnknown("the receiver does not know")),
        ((401, b"wrong\nsecret"), ImpactFailed("the receiver refused: answer 401: wrong secret")),
        ((404, b""), ImpactFailed("the receiver refused: answer 404")),
        (
            (302, b""),
            ImpactFailed("answer 302; redirects are not followed: set 'url' to the address that it leads to"),
        ),
    ],
)
def test_a_clear_answer_ends_it(harness: WebhookHarness, answer: tuple[int, bytes], outcome: ImpactOutcome) -> None:
    """It is done, failed or refused as the receiver says, and stays so."""
    harness.receiver.answers = [answer]
    asked = impact()

    assert harness.driver().perform(asked) == outcome
    assert harness.driver().outcome_of(asked) == outcome
    assert len(harness.receiver.messages) == 1


def test_what_takes_its_time_is_asked_for(harness: WebhookHarness) -> None:
    """Without a callback the receiver is asked until it tells the end; questions have ids of their own."""
    harness.receiver.takes_its_time = True
    driver, asked = harness.driver(), impact()
    outcome = driver.perform(asked)
    assert isinstance(outcome, ImpactUnderway)
    assert isinstance(driver.outcome_of(asked), ImpactUnderway)
    harness.receiver.finished.set()

    assert when_ended(driver, asked) == ImpactDone(detail="by hand")
    assert len(set(harness.receiver.ids)) == len(harness.receiver.ids)
    assert harness.receiver.done == [asked.event.id]


def test_a_receiver_that_cannot_tell_now_is_asked_later(harness: WebhookHarness) -> None:
    """Not at once, and not before the pause that it asks for."""
    harness.receiver.takes_its_time = True
    driver, asked = harness.driver(), impact()
    driver.perform(asked)
    harness.receiver.answers = [(429, b"")]
    before = datetime.now(UTC)
    outcome = driver.outcome_of(asked)

    assert isinstance(outcome, ImpactUnderway)
    assert outcome.check_at >= before + timedelta(seconds=1)


def test_an_empty_answer_means_that_it_was_taken(harness: WebhookHarness) -> None:
    """204, or any 2xx without a body, is underway."""
    harness.receiver.answers = [(204, b"")]

    assert isinstance(harness.driver().perform(impact()), ImpactUnderway)


def call_back(driver: WebhookDriver, said: Mapping[str, object], secret: str = SECRET) -> int:
    """Say something to the driver of one's own accord; return the status."""
    body = json.dumps(said).encode()
    request = urllib.request.Request(  # noqa: S310 the driver's own address
        driver._callback_url, body, sign(secret, "back-1", datetime.now(UTC), body)
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 as above
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_receiver_calls_back(harness: WebhookHarness) -> None:
    """What it says of its own accord is the outcome; it need not be asked again."""
    harness.receiver.takes_its_time = True
    driver, asked = harness.driver(callback="127.0.0.1:0"), impact()
    harness.receiver.answers = [(202, b'{"outcome": "underway", "check_after": 3600}')]
    driver.perform(asked)
    assert harness.receiver.messages[0]["callback"] == driver._callback_url
    assert call_back(driver, {"event": asked.event.id, "outcome": "underway", "detail": "half-way"}) == 204
    heard = driver.outcome_of(asked)
    assert isinstance(heard, ImpactUnderway)
    assert heard.progress == "half-way"
    said = {"event": asked.event.id, "outcome": "done", "hosts": {"web-0": "h9"}, "detail": "moved"}

    assert call_back(driver, said) == 204
    assert driver.outcome_of(asked) == ImpactDone({"web-0": "h9"}, "moved")
    assert call_back(driver, said | {"outcome": "failed"}) == 204
    assert driver.outcome_of(asked) == ImpactDone({"web-0": "h9"}, "moved")
    assert len(harness.receiver.messages) == 1


def test_a_callback_may_write_the_id_as_everybody_else_sees_it(harness: WebhookHarness) -> None:
    """In upper case, as in the document, in the record and in the log."""
    harness.receiver.answers = [(202, b'{"outcome": "underway", "check_after": 3600}')]
    driver, asked = harness.driver(callback="127.0.0.1:0"), impact()
    driver.perform(asked)

    assert call_back(driver, {"event": show_id(asked.event.id), "outcome": "done"}) == 204
    assert driver.outcome_of(asked) == ImpactDone()


def test_a_stranger_s_callback_changes_nothing(harness: WebhookHarness) -> None:
    """A wrong secret, an event never asked for, garbage and a body too long are refused."""
    harness.receiver.takes_its_time = True
    driver, asked = harness.driver(callback="127.0.0.1:0"), impact()
    driver.perform(asked)
    done = {"event": asked.event.id, "outcome": "done"}

    assert call_back(driver, done, "whsec_" + "A" * 32) == 401
    assert call_back(driver, {"event": "../secret", "outcome": "done"}) == 404
    assert call_back(driver, {"event": impact("two").event.id, "outcome": "done"}) == 404
    assert call_back(driver, {"event": asked.event.id, "outcome": "perhaps"}) == 400
    assert call_back(driver, done | {"detail": "x" * 70_000}) == 400
    assert isinstance(driver.outcome_of(asked), ImpactUnderway)


def test_nobody_at_the_door_is_a_failure(harness: WebhookHarness) -> None:
    """Where no connection came about, nothing was done, and the reason says so."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        outcome = harness.driver(url=url, patience="1s").perform(impact())

    assert outcome == ImpactFailed(f"{url[7:-1]} did not answer: connection refused")


def test_no_clear_answer_in_the_end_is_unknowable(harness: WebhookHarness) -> None:
    """Where the receiver may have read it and never answered, nobody knows, and it is not sent again."""
    harness.receiver.answers = [None] * 9
    driver, asked = harness.driver(patience="1s"), impact()

    assert isinstance(driver.perform(asked), ImpactUnknown)
    sent = len(harness.receiver.ids)
    assert isinstance(driver.perform(asked), ImpactUnknown)
    assert len(harness.receiver.ids) == sent


def test_a_slow_answer_is_cut_short(harness: WebhookHarness) -> None:
    """An answer has its time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        began = time.monotonic()
        outcome = harness.driver(url=url, timeout=0.3, patience="1s").perform(impact())

    assert isinstance(outcome, ImpactUnknown)
    assert time.monotonic() - began < 30


def test_after_a_crash_the_receiver_is_asked(harness: WebhookHarness) -> None:
    """The answer was lost; the receiver's word counts, and is remembered."""
    trial, asked = WebhookTrial(harness), impact()
    trial.crash_during(asked)

    assert harness.driver().outcome_of(asked) == ImpactDone(detail="by hand")
    harness.receiver.tells = False
    assert harness.driver().outcome_of(asked) == ImpactDone(detail="by hand")


def test_a_receiver_that_does_not_tell_leaves_it_unknown(harness: WebhookHarness) -> None:
    """After a crash between message and answer, a receiver without outcomes leaves nobody who knows."""
    trial, asked = WebhookTrial(harness), impact()
    trial.crash_during(asked)
    harness.receiver.tells = False

    assert isinstance(harness.driver().outcome_of(asked), ImpactUnknown)


def test_what_was_never_sent_is_not_begun(harness: WebhookHarness) -> None:
    """By the receiver's word, or by our own record where it tells nothing."""
    assert harness.driver().outcome_of(impact()) == ImpactNotBegun()
    harness.receiver.tells = False
    assert harness.driver().outcome_of(impact()) == ImpactNotBegun()


def test_an_impact_does_not_stay_under_way_for_ever(harness: WebhookHarness) -> None:
    """Past the longest time nobody knows."""
    harness.receiver.takes_its_time = True
    harness.driver(longest="1s").perform(impact())
    late = impact_at(attempted_at=datetime.now(UTC) - timedelta(seconds=2))

    assert isinstance(harness.driver(longest="1s").outcome_of(late), ImpactUnknown)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"url": "ftp://x"},
            "setting 'url' of driver 'webhook': expected an http:// or https:// address",
        ),
        ({"url": ""}, "setting 'url' of driver 'webhook'"),
        ({"url": "http://x:99999/"}, "setting 'url' of driver 'webhook'"),
        ({"outcome_url": "x"}, "setting 'outcome_url' of driver 'webhook'"),
        ({"secret_file": "/no/such"}, "setting 'secret_file' of driver 'webhook': /no/such: No such file"),
        ({"secret_file": "/etc/hostname"}, "/etc/hostname: a signing secret is whsec_ and the base64 of 24 to 64"),
        ({"callback": "8256"}, "setting 'callback' of driver 'webhook': expected HOST:PORT"),
        ({"callback": "192.0.2.1:1"}, "setting 'callback' of driver 'webhook': cannot listen on 192.0.2.1:1: "),
        ({"patience": "soon"}, "setting 'patience' of driver 'webhook': expected a duration"),
        ({"urls": "x"}, "did you mean 'url'?"),
    ],
)
def test_a_wrong_setting_is_refused_at_start(
    harness: WebhookHarness, settings: dict[str, object], sentence: str
) -> None:
    """Each mistake is one sentence, before anything is announced to anybody."""
    with pytest.raises(BadInput) as refused:
        harness.driver(**settings)

    assert sentence in str(refused.value)


@pytest.mark.parametrize("years", [10, -10])
def test_a_wall_clock_that_is_set_changes_neither_when_it_asks_nor_how_long_it_waits(
    harness: WebhookHarness, years: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver is asked when it wanted to be, and the longest time is time that has passed."""
    monkeypatch.setattr(receiver_module, "verify", lambda *_: None)  # its clock is set as well
    harness.receiver.answers = [(200, b'{"outcome": "underway", "check_after": 60}')] * 2
    harness.clock = clock = ManualClock(datetime.now(UTC))
    clock.advance(timedelta(hours=2))  # the service has run for longer than that
    asked = impact_at(attempted_at=clock.now())
    driver = harness.driver(callback="127.0.0.1:0", longest="1h")
    driver.perform(asked)
    clock.step(timedelta(days=365 * years))

    assert isinstance(driver.outcome_of(asked), ImpactUnderway)
    assert len(harness.receiver.messages) == 1
    clock.advance(timedelta(seconds=61))
    assert isinstance(driver.outcome_of(asked), ImpactUnderway)
    assert len(harness.receiver.messages) == 2
    clock.advance(timedelta(hours=1))
    harness.receiver.answers = [(200, b'{"outcome": "underway"}')]
    assert isinstance(driver.outcome_of(asked), ImpactUnknown)


def test_the_receiver_starts_and_stops_vms_where_it_is_said_to(harness: WebhookHarness) -> None:
    """Done is done, a refusal is the reason, and what is not clear is asked again until patience ends."""
    vm, driver = Vm("web-0", "web", host="h1"), harness.driver(switches=True)
    assert driver.switch(vm, on=False) == ImpactDone()
    assert harness.receiver.switched == [("stop", "web-0")]

    harness.receiver.answers += [(400, b"no such word"), (503, b""), (200, b'{"outcome": "underway"}')]
    assert driver.switch(vm, on=True) == ImpactFailed("the receiver refused: answer 400: no such word")
    assert isinstance(driver.switch(vm, on=True), ImpactUnderway)
    assert isinstance(driver.switch(vm, on=True), ImpactUnderway)
    assert driver.switch(vm, on=True) == ImpactDone()

    harness.receiver.answers += [(503, b"")]
    assert harness.driver(switches=True, patience="0s").switch(vm, on=True) == ImpactFailed("answer 503")
    assert not can_switch(harness.driver())
