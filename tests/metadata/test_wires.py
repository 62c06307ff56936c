"""Listeners that know callers by their wires; how they do with real wires, tests/network and tests/guests tell."""

import os

import pytest

from forewarn.config.values import Endpoint
from forewarn.metadata.listener import Listener
from forewarn.metadata.wires import MarkListener, TapListener
from tests.metadata.site import on_both_loops, site


@on_both_loops
@pytest.mark.parametrize("kind", ["mark", "tap"])
async def test_a_caller_whose_wire_has_gone_is_let_go(kind: str) -> None:
    """Of what is no connection any more the kernel tells nothing; it is closed, and the next is taken in."""
    async with site() as service:
        listener: Listener
        if kind == "mark":
            listener = MarkListener(service.edge, ())
        else:
            listener = TapListener(service.edge, Endpoint("127.0.0.1", 0), ())
        gone, other = os.pipe()
        listener._greet(gone, "127.0.0.1")
        os.close(other)

        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(gone)
        assert len(service.edge) == 0
