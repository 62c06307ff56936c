"""The VMs that wait, and what they ask."""

from bench.long_polls import member, poll_request
from forewarn.metadata.http_grammar import read_head
from forewarn.metadata.request import LONGEST_WAIT, interpret_head


def test_an_operation_on_one_host_concerns_every_group() -> None:
    """Each host has one VM of each group."""
    members = [member(number) for number in range(1_000)]
    groups = {terms.name for _, terms in members}

    assert len(groups) == 10
    for host in range(100):
        on_host = [vm.group for vm, _ in members if vm.host == f"host-{host}"]
        assert sorted(on_host) == sorted(groups)


def test_the_request_waits() -> None:
    """As long as a service lets it."""
    request = interpret_head(read_head(poll_request('"workers-0-7"')))

    assert request.refusal is None
    assert request.tags == (b"workers-0-7",)
    assert request.wait == LONGEST_WAIT
