"""An agent that kills itself: ``python -m tests.agent.dying N before|after agent.toml`` at the Nth thing it keeps.

Before: what it was about to keep is lost. After: it is durable, and nothing has followed from it.
"""

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from forewarn.agent.decision.facts import AgentFact
from forewarn.agent.runtime import assembly
from forewarn.agent.runtime.memory_file import MemoryFile
from forewarn.agent.settings import load

_append = MemoryFile.append


def main(number: int, moment: str, config: Path) -> None:
    count = 0

    def append(self: MemoryFile, facts: Iterable[AgentFact]) -> None:
        nonlocal count
        facts = tuple(facts)
        count += 1
        if count == number and moment == "before":
            _die(facts)
        _append(self, facts)
        if count == number:
            _die(facts)

    MemoryFile.append = append  # type: ignore[method-assign]
    assembly.run(load({}, os.environ, config))


def _die(facts: tuple[AgentFact, ...]) -> None:
    """Say what was being kept, in words such as ``ended first do``, and end."""
    for fact in facts:
        result = (getattr(fact, field, "") for field in ("handler", "direction"))
        print(type(fact).__struct_config__.tag, *result, flush=True)  # noqa: T201 - the test reads it
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
