"""Forewarn under measurement: the service as its users start it, on a journal that already holds a fleet."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.processes import free_port, running, wait_until_listening
from bench.server import Server


@contextmanager
def serving(
    data: Path,
    core: int,
    *,
    rate_limit: float = 0.0,
    more: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run the service for as long as the block lasts.

    Neither rate nor connections are limited unless asked for: nginx is asked for neither. The environment decides
    which version of the service runs.
    """
    port = free_port()
    log = data.with_name(f"{data.name}.log")
    command = [
        sys.executable, "-m", "forewarn", "serve",
        "--data", str(data),
        "--metadata", f"127.0.0.1:{port}",
        "--control", "off",
        "--rate-limit", str(rate_limit),
        "--connections-per-caller", "0",
        "--log-level", "warning",
        *more,
    ]  # fmt: skip
    with running(command, core, log, environment) as process:
        wait_until_listening(port, process, log, 120)
        yield Server("forewarn", port, process.pid)
