"""What mixed callers send."""

from bench.fleets import address_of, mixed, standalone
from bench.requests import HEADER_SETS, header_set, request
from forewarn.core.model import GroupKind
from forewarn.metadata.http_grammar import read_head


def test_no_two_header_sets_are_alike() -> None:
    """There are as many as the bench claims."""
    assert len({header_set(number) for number in range(HEADER_SETS)}) == HEADER_SETS


def test_every_header_set_makes_a_good_request() -> None:
    """Each is well-formed, has the Metadata header, and keeps its connection; all versions are asked for."""
    heads = [read_head(request(number)) for number in range(HEADER_SETS)]

    assert all(head.keeps_alive and head.fields[b"metadata"].lower() == b"true" for head in heads)
    assert len({head.target for head in heads}) == 7


def test_a_closing_request_closes() -> None:
    """Whatever the header set says of its connection."""
    assert not any(read_head(request(number, closing=True)).keeps_alive for number in range(HEADER_SETS))


def test_a_caller_with_an_etag_asks_for_changes_only() -> None:
    """The tag goes back as it came."""
    assert read_head(request(3, '"web-0-1"')).fields[b"if-none-match"] == b'"web-0-1"'


def test_addresses_begin_with_the_one_that_every_tool_uses() -> None:
    """And no two VMs share one."""
    assert address_of(0) == "127.0.0.1"
    assert len({address_of(number) for number in range(100_000)}) == 100_000


def test_the_mixed_fleet_is_what_the_documentation_says() -> None:
    """40 % standalone, 30 % in availability sets of 5, 30 % in scale sets of 100."""
    members = [mixed(number) for number in range(1_000)]
    kinds = [terms.kind for _, terms in members]

    assert [kinds.count(kind) for kind in GroupKind] == [400, 300, 300, 0]
    assert len({vm.group for vm, _ in members}) == 400 + 60 + 3
    assert len({vm.name for vm, _ in members}) == 1_000


def test_in_the_standalone_fleet_nothing_is_shared() -> None:
    """Every VM has its own group and its own vm_id."""
    members = [standalone(number) for number in range(100)]

    assert len({terms.name for _, terms in members}) == 100
    assert len({vm.instance.vm_id for vm, _ in members}) == 100
