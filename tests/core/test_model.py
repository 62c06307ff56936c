"""The records themselves: what they derive from their fields."""

import msgspec
import pytest

from forewarn.core.model import NODE, BulkOperation, Caller, CallerKind, Operation, OperationScope, StartCause, Vm
from tests.core.harness import FleetHarness


def test_a_vm_stands_where_it_was_moved_to() -> None:
    """What happened at run time goes before what was declared."""
    assert Vm("web-0", "web", "h1").standing_on == "h1"
    assert Vm("web-0", "web", "h1", moved_to="h2").standing_on == "h2"


def test_a_caller_is_named_with_its_origin() -> None:
    """The record tells who caused something, and from where if that is known."""
    assert str(Caller(CallerKind.OPERATOR, "ann")) == "ann"
    assert str(Caller(CallerKind.VM, "web-0", "10.0.0.1")) == "web-0 (10.0.0.1)"
    assert str(NODE) == "forewarn"


def test_a_vm_that_is_gone_stays_in_resources_only() -> None:
    """Resources are fixed for life; the VMs of an event are those still there."""
    harness = FleetHarness(
        "ann declares: host h1; group web availability-set; vm web-0 in web on h1; vm web-1 in web on h1",
        "ann freezes host h1",
        "ann deletes web-0",
        "the driver is done with E2",
    )
    event = harness.fleet.events[harness.id("E1")]

    assert event.resources == ("web-0", "web-1")
    assert event.vms == ("web-1",)


@pytest.mark.parametrize("operation", [*Operation, *BulkOperation])
def test_an_operation_is_a_scope_and_a_verb(operation: Operation | BulkOperation) -> None:
    """Both are read from what is recorded."""
    assert operation == f"{operation.scope} {operation.verb}"
    assert type(operation).of(operation.scope, operation.verb) is operation


def test_an_operation_of_another_release_is_kept() -> None:
    """What is recorded does not keep a service from starting, and is written as it was read."""
    read = msgspec.json.decode(b'"host polish"', type=Operation)

    assert (read.scope, read.verb, read.is_of_host, read.is_failure) == (OperationScope.HOST, "polish", True, False)
    assert msgspec.json.encode(read) == b'"host polish"'


@pytest.mark.parametrize(
    ("sentence", "cause"),
    [
        *((str(each), each) for each in StartCause),
        ("approved by web-0, web-1", StartCause.APPROVED),
        ("approved automatically by the group's policy", StartCause.APPROVED_AUTOMATICALLY),
        ("the moon is full", StartCause.OTHER),
    ],
)
def test_a_recorded_sentence_tells_the_cause(sentence: str, cause: StartCause) -> None:
    """Metrics and rules compare causes, not sentences."""
    assert StartCause(sentence) is cause
