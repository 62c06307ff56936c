"""Commands as they come over the API."""

import msgspec
import pytest

from forewarn.core.commands import OperateVm, VmOperation
from tests.core.harness import ANN, NOON


def test_a_command_is_the_same_on_the_other_side() -> None:
    """What is sent as JSON is what is decided."""
    command = OperateVm(id="c", by=ANN, operation=VmOperation.RESTART, vm="web-0", not_before=NOON)

    assert msgspec.json.decode(msgspec.json.encode(command), type=OperateVm) == command


def test_a_time_without_zone_is_refused() -> None:
    """Nobody knows when that would be."""
    written = b'{"command":"operate-vm","id":"c","by":{"kind":"operator"},"operation":"restart","vm":"web-0",%s}'

    msgspec.json.decode(written % b'"not_before":"2024-01-01T12:00:00+01:00"', type=OperateVm)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(written % b'"not_before":"2024-01-01T12:00:00"', type=OperateVm)


@pytest.mark.parametrize(
    "kind", ["wake", "attempt", "report", "enrol", "switch-off", "record-asked", "record-fetched"]
)
def test_an_operator_cannot_speak_for_the_node(kind: str) -> None:
    """The node's own commands do not come over the API."""
    written = b'{"command":"%s","id":"c","by":{"kind":"operator"},"events":[],"event":"e"}' % kind.encode()

    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(written, type=OperateVm)
