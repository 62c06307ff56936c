"""Metrics file with the age of the data that a worker serves while its leader process is down."""

from contextlib import suppress
from pathlib import Path

_METRIC = "forewarn_worker_leader_age_seconds"


class LeaderAgeFile:
    """A file in the Prometheus text format, for the node exporter; it exists only while there is no leader."""

    def __init__(self, directory: Path, number: int) -> None:
        self.path = directory / f"worker-{number + 1}.prom"
        self._number = number
        self._may_exist = True  # an earlier worker may have been killed

    def write(self, age: float) -> None:
        lines = (
            f"# HELP {_METRIC} Seconds since it knew its leader to be well.",
            f"# TYPE {_METRIC} gauge",
            f'{_METRIC}{{worker="{self._number + 1}"}} {age:.1f}',
            "",
        )
        self._may_exist = True
        with suppress(OSError):  # a full disk must not end the answers
            partial = self.path.with_suffix(".new")
            partial.write_text("\n".join(lines), "ascii")
            partial.replace(self.path)

    def remove(self) -> None:
        """Remove the file; repeating it does nothing."""
        if self._may_exist:
            self._may_exist = False
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
