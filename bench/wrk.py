"""wrk as a load: requests from one address over keep-alive connections, or one connection for each."""

from pathlib import Path

import msgspec

from bench.processes import run_on

_SCRIPT = Path(__file__).with_name("count.lua")
TARGET = "/metadata/scheduledevents?api-version=2020-07-01"


class Load(msgspec.Struct, frozen=True):
    """What a load generator did."""

    requests: int
    failed: int
    seconds: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def run(core: int, port: int, connections: int, seconds: int, *, closing: bool = False) -> Load:
    """Ask for so many seconds over so many connections."""
    command = [
        "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(_SCRIPT), "-H", "Metadata: true",
        *(["-H", "Connection: close"] if closing else []),
        f"http://127.0.0.1:{port}{TARGET}",
    ]  # fmt: skip
    return read_summary(run_on(core, command, seconds + 60))


def read_summary(printed: bytes) -> Load:
    """Read the line that the script ends with; a load with failures measures nothing."""
    load = msgspec.json.decode(printed.strip().splitlines()[-1], type=Load)
    if load.failed > load.requests // 1000:
        raise SystemExit(f"wrk counted {load.failed} failures in {load.requests} requests.")
    return load
