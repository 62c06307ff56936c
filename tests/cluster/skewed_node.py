"""Runs ``forewarn`` with a clock that is wrong by as many seconds as a file says: the first argument."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from forewarn.__main__ import main
from forewarn.clocks import SystemClock

if __name__ == "__main__":
    file = Path(sys.argv.pop(1))

    def now(self: SystemClock) -> datetime:  # noqa: ARG001 - it stands for a method
        return datetime.now(UTC) + timedelta(seconds=float(file.read_text("ascii")))

    SystemClock.now = now  # type: ignore[method-assign]
    main()
