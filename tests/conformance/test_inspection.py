"""Servers are looked at from outside: ours keeps every rule, and what is wrong with another is found."""

from typing import Any

import msgspec
import pytest

from forewarn.conformance import evidence
from forewarn.conformance.checks import OUT_OF_SIGHT, RuleFinding, RuleOutcome, is_good
from forewarn.conformance.evidence import InspectionPlan
from forewarn.conformance.inspection import MODULES, inspect
from forewarn.conformance.inspection_context import CHECKS
from forewarn.conformance.rules import BY_NAME
from forewarn.conformance.server import Server, ServerReply
from forewarn.core.errors import BadInput, Unavailable
from forewarn.emulator import Emulator
from tests.conformance.kit.mock import Mock


def by_rule(findings: list[RuleFinding]) -> dict[str, RuleFinding]:
    return {each.rule: each for each in findings}


def of(findings: dict[str, RuleFinding], outcome: RuleOutcome) -> set[str]:
    return {name for name, finding in findings.items() if finding.outcome is outcome}


@pytest.fixture(scope="module")
def of_ours() -> dict[str, RuleFinding]:
    """Look at our own service while it announces, starts and ends a Preempt and a restart."""
    with Emulator("web-0", "web-1", clock="system", hurry=90) as emulator:
        emulator.vm("web-1").evict(notice="20h")
        emulator.vm("web-0").reboot(notice="20h")
        findings = inspect(Server(emulator.url, rate=5), InspectionPlan(wait=60, approves=True), is_ours=True)
    return by_rule(findings)


@pytest.fixture(scope="module")
def of_mock() -> dict[str, RuleFinding]:
    """Look at the mock, while it has its event and after it was approved."""
    with Mock() as mock:
        return by_rule(inspect(Server(mock.url), InspectionPlan(approves=True)))


@pytest.mark.end_to_end
def test_our_own_service_breaks_no_rule(of_ours: dict[str, RuleFinding]) -> None:
    """Held to our own rules too; and nothing that can be seen is left unseen, but what must be asked for."""
    assert {each for each in of_ours.values() if each.outcome is RuleOutcome.BREACH} == set()
    # Whether events stand in their order shows only where two of them outlive a change.
    unseen = {"refused-slow", "refused-rate", "events-by-announcement"}
    assert {name for name in of(of_ours, RuleOutcome.NOT_SEEN) if name in CHECKS} <= unseen


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("ISO dates", "not-before-in-rfc-1123"),
        ("a new id for each state", "id-for-life"),
        ("no check of the header", "refused-without-header"),
        ("no check of the version", "refused-version"),
        ("no check of X-Forwarded-For", "refused-forwarded"),
        ("only the first request is read", "approval-unreadable"),
        ("200 for an unknown id", "refused-body"),
        ("blanks", "one-line-of-json"),
        ("no /metadata/instance", "instance-whole"),
    ],
)
def test_a_known_fault_is_found(fault: str, rule: str, of_mock: dict[str, RuleFinding]) -> None:
    """Each by the rule that it breaks."""
    assert of_mock[rule].outcome is RuleOutcome.BREACH, fault


def test_an_id_is_sent_in_another_case_than_it_is_shown_in() -> None:
    """Also where ids are shown in lower case: a server that compares letter by letter is found."""
    with Mock(has_lower_ids=True) as mock:
        (finding,) = inspect(Server(mock.url), InspectionPlan(approves=True), only=["approval-id-in-any-case"])

    assert finding.outcome is RuleOutcome.BREACH
    assert finding.expected == "200 to an id in another case than it is shown in"


@pytest.mark.end_to_end
def test_an_id_in_another_case_that_is_ignored_is_found() -> None:
    """A 200 alone proves nothing; the ids as shown then start the event."""
    with Mock(is_silent=True) as mock:
        rules = ["approval-id-in-any-case", "approval-starts-the-event"]
        found = by_rule(inspect(Server(mock.url), InspectionPlan(approves=True, patience=1.0), only=rules))

    assert found["approval-starts-the-event"].outcome is RuleOutcome.KEPT
    assert found["approval-id-in-any-case"].outcome is RuleOutcome.BREACH
    assert found["approval-id-in-any-case"].seen == "answered 200, and ignored"


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("source", "outcome"),
    [("User", RuleOutcome.BREACH), ("Platform", RuleOutcome.NOT_SEEN)],
)
def test_a_second_request_that_is_not_read_is_found(source: str, outcome: RuleOutcome) -> None:
    """What a user asked for waits for nobody; maintenance may wait for its turn while another goes on."""
    with Mock(number=2, source=source) as mock:
        plan = InspectionPlan(approves=True, patience=1.0)
        (finding,) = inspect(Server(mock.url), plan, only=["approval-of-several"])

    assert finding.outcome is outcome
    assert outcome is RuleOutcome.NOT_SEEN or finding.seen == "request 2 of 2 did not"


def test_a_turn_that_never_comes_is_found() -> None:
    """Once it is the only event there is, an approved one waits for nothing."""
    with Mock(number=2) as mock:
        first, second = mock.events
        seen = evidence.Evidence(approved=[first, second], approved_at=1)
        both, alone = (shown(each) for each in ([first | {"EventStatus": "Started"}, second], [second]))
        seen.documents = [shown([first, second]), both]
        seen.after_approval = both

        assert seen.may_still_wait(second)
        seen.documents.append(alone)
        assert not seen.may_still_wait(second)


def shown(events: list[dict[str, Any]]) -> evidence.ShownDocument:
    body = msgspec.json.encode({"DocumentIncarnation": 1, "Events": events})
    return evidence.ShownDocument(ServerReply(200, (), body))


def test_all_may_be_required_to_be_seen() -> None:
    """What cannot be seen from outside is asked of nobody."""
    unseen, out_of_sight, kept = (
        RuleFinding("rule", outcome, "", why)
        for outcome, why in (
            (RuleOutcome.NOT_SEEN, "no event"),
            (RuleOutcome.NOT_SEEN, OUT_OF_SIGHT),
            (RuleOutcome.KEPT, ""),
        )
    )

    assert is_good([unseen, out_of_sight, kept])
    assert is_good([out_of_sight, kept], requires_all=True)
    assert not is_good([unseen, kept], requires_all=True)


def test_what_a_mock_does_right_is_not_held_against_it(of_mock: dict[str, RuleFinding]) -> None:
    """Its statuses, ids and order of keys are as they should be."""
    kept = {
        "statuses",
        "id-in-upper-case",
        "key-order",
        "incarnation-is-a-number",
        "not-before-is-empty-once-started",
    }

    assert kept <= of(of_mock, RuleOutcome.KEPT)


def test_our_own_rules_do_not_bind_others(of_mock: dict[str, RuleFinding]) -> None:
    """A server without an ETag differs, and breaks nothing."""
    assert of_mock["etag"].outcome is RuleOutcome.DIFFERS


def test_without_an_event_nothing_is_said_of_events() -> None:
    """What could not be looked at is not seen, never kept."""
    with Emulator("web-0") as emulator:
        findings = by_rule(
            inspect(Server(emulator.url), InspectionPlan(), only=["id-for-life", "version-2017-03-01", "turns"])
        )

    assert {each.outcome for each in findings.values()} == {RuleOutcome.NOT_SEEN}
    assert "--trigger" in findings["id-for-life"].seen
    assert findings["turns"].seen == OUT_OF_SIGHT


def test_no_event_is_approved_unless_it_is_allowed() -> None:
    """An approval starts something real."""
    with Emulator("web-0") as emulator:
        event = emulator.vm("web-0").reboot()
        findings = by_rule(
            inspect(Server(emulator.url), InspectionPlan(), only=["approval-answers-200", "id-in-upper-case"])
        )

        assert event.approved_by == ()
        assert [each.method for each in emulator.requests if each.method == "POST"] == []
    assert "--approve" in findings["approval-answers-200"].seen
    assert findings["id-in-upper-case"].outcome is RuleOutcome.KEPT


def test_a_trigger_makes_the_event() -> None:
    """One that fails is told with its last words."""
    with Emulator("web-0") as emulator:
        with pytest.raises(BadInput, match=r"the trigger 'ls /no/such/file' ended with 2: .*"):
            inspect(Server(emulator.url), InspectionPlan(triggers=["ls /no/such/file"]), only=["statuses"])
        with pytest.raises(BadInput, match="the trigger 'no-such-program' cannot be run"):
            inspect(Server(emulator.url), InspectionPlan(triggers=["no-such-program"]), only=["statuses"])


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    """The sentence names its address."""
    with pytest.raises(Unavailable, match=r"no server answers at 127\.0\.0\.1:1"):
        inspect(Server("http://127.0.0.1:1"), InspectionPlan())


@pytest.mark.parametrize("url", ["https://127.0.0.1", "http://", "http://host:port"])
def test_an_address_that_is_none_is_wrong_usage(url: str) -> None:
    """It says how to write one."""
    with pytest.raises(BadInput, match="write it as http://HOST:PORT"):
        Server(url)


def test_every_check_is_of_a_rule() -> None:
    """A check without its rule would never be made."""
    assert len(MODULES) == 6
    assert set(CHECKS) <= set(BY_NAME)
