"""The service's journal, followed while it is written, in words for people."""

import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from forewarn.audit.history_lines import HistoryLine
from forewarn.control.client import ControlClient
from forewarn.core.errors import ForewarnError

_LOOK_EVERY = 0.2
_MOST = 100
"""Lines that may be written between two looks."""
_ENDS = frozenset({"completed", "failed", "canceled"})
_ROLLOUT_ENDS = frozenset({"rollout-ended", "rollout-paused"})


class JournalPrinter:
    """Tells each new line of the journal, in a thread of its own, until it is closed."""

    def __init__(self, data: Path, tell: Callable[[str], None]) -> None:
        self.failure: ForewarnError | None = None
        """Why the service could not be asked, if it could not."""
        self.over: set[str] = set()
        """Events with a printed end, and rollouts that have ended or pause."""
        self._data = data
        self._tell = tell
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="record", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _follow(self) -> None:
        last = (0, 0)
        with ControlClient.local(self._data) as client:
            while not self._closing.wait(_LOOK_EVERY):
                try:
                    page = [line for line, _ in zip(client.history(), range(_MOST), strict=False)]
                except ForewarnError as error:
                    self.failure = error
                    return
                fresh = sorted((line for line in page if line.place > last), key=lambda line: line.place)
                for line in fresh:
                    last = line.place
                    if text := describe_line(line):
                        self._tell(text)
                    if line.fact in _ENDS:
                        self.over.add(line.event)
                    elif line.fact in _ROLLOUT_ENDS:
                        self.over.add(str(line.detail["rollout"]))


def describe_line(line: HistoryLine) -> str:
    """Say what a line of the journal tells; empty for what the story does without."""
    event = f"{line.type} of {' and '.join(line.vms)}"
    match line.fact:
        case "announced":
            not_before = datetime.fromisoformat(str(line.detail["not_before"]))
            return f"{event} announced, not before {not_before.astimezone():%H:%M:%S}"
        case "started-at-once":
            return f"{event} begins without notice{_after_colon(line.detail.get('without_notice'))}"
        case "approved":
            return f"{event} approved by {line.by}"
        case "waiting":
            return f"{event} waits its turn"
        case "started":
            return f"{event} begins{_after_colon(line.detail.get('because'))}"
        case "completed":
            return f"{event} is over{_after_colon(line.detail.get('detail'))}"
        case "failed":
            return f"{event} failed{_after_colon(line.detail.get('reason'))}"
        case "canceled":
            return f"{event} canceled{_after_colon(line.detail.get('because'))}"
        case "vm-moved":
            return f"{line.vms[0]} stands on {line.host} now"
        case "vm-deallocated":
            return f"{line.vms[0]} is deallocated"
        case "enrolled":
            return f"group {line.group} listens: notices are on"
        case "observed":
            return f"{line.vms[0]} was seen{_after_colon(line.detail.get('what'))}"
        case fact if fact.startswith("rollout-"):
            return str(line.detail["said"])
    return ""


def _after_colon(text: object) -> str:
    return f": {text}" if text else ""
