"""Tests for ``demo.traces``."""

import subprocess
import sys

import pytest

_BURY = """
import subprocess
from demo import traces
traces.adopt_orphans()
subprocess.run(["sh", "-c", "trap '' TERM; sleep 60 & exit"])
traces.bury(0.2)
print(list(traces.left("forewarn-none", traces.Path("/nonexistent"))))
"""


@pytest.mark.end_to_end
def test_a_process_that_does_not_end_by_itself_is_killed() -> None:
    """Nothing of an interrupted demo runs on, however busy the machine is; what its children left alone included."""
    done = subprocess.run([sys.executable, "-c", _BURY], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "[]\n"
