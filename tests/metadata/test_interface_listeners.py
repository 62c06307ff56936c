"""Listeners that know callers by their wires; how they do with real wires, tests/network and tests/guests tell."""

import os

import pytest

from forewarn.config.values import ListenAddress
from forewarn.metadata.interface_listeners import MarkListener, TapListener
from forewarn.metadata.listener import MetadataListener
from tests.metadata.harness import harness, on_both_loops


@on_both_loops
@pytest.mark.parametrize("kind", ["mark", "tap"])
async def test_a_caller_whose_wire_has_gone_is_let_go(kind: str) -> None:
    """Of what is no connection any more the kernel tells nothing; it is closed, and the next is taken in."""
    async with harness() as service:
        listener: MetadataListener
        if kind == "mark":
            listener = MarkListener(service.registry, ())
        else:
            listener = TapListener(service.registry, ListenAddress("127.0.0.1", 0), ())
        gone, other = os.pipe()
        listener._admit(gone, "127.0.0.1")
        os.close(other)

        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(gone)
        assert len(service.registry) == 0
