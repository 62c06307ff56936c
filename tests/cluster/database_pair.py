"""A primary and a synchronous standby, in a network namespace where nodes can be cut off from them."""

import ctypes
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psycopg

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.schema import migrate
from tests.postgresql import PostgresServer

_NEW_NETWORK = 0x40000000
_ANY_HOST = "127.0.0.0/8"
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def network_namespace() -> Iterator[None]:
    """Let this thread, and what it starts, have a network of its own."""
    with Path("/proc/thread-self/ns/net").open("rb") as before:
        if _libc.unshare(_NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "the tests of clusters need the right to make network namespaces")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            _libc.setns(before.fileno(), _NEW_NETWORK)


class DatabasePair:
    """Two servers, of which one is the primary. Each node calls them by an address of its own."""

    def __init__(self) -> None:
        self.primary = _server()
        self.standby = _server()
        self.ports = (self.primary.port, self.standby.port)
        self.primary.initialize()
        self._allow_replication(self.primary)
        self.primary.start()
        self.create_database()
        self._follow()

    def create_database(self) -> None:
        """Make the database of a cluster anew: it belongs to the nodes of one authority."""
        self.primary.execute("DROP DATABASE IF EXISTS forewarn WITH (FORCE)")
        self.primary.execute("CREATE DATABASE forewarn")
        migrate(DatabaseAddress.parse(self.primary.location("forewarn")))

    def journal(self, host: str = "127.0.0.1") -> str:
        """Return the setting ``journal`` for a node that calls both servers by this address."""
        one, other = self.ports
        where = f"{host}:{one},{host}:{other}"
        return f"postgresql://postgres@{where}/forewarn?target_session_attrs=read-write&connect_timeout=2"

    def fail_over(self) -> float:
        """Kill the primary, promote the standby; return when it was writable. A new standby follows."""
        self.primary.stop(signal.SIGKILL)
        return self._promote()

    @contextmanager
    def silent_primary(self) -> Iterator[float]:
        """Drop all packets to and from the primary, promote the standby; yield when it was writable."""
        with Partition(_ANY_HOST, (self.primary.port,)):
            yield self._promote()
            self.standby.stop(signal.SIGKILL)

    @contextmanager
    def stopped_primary(self) -> Iterator[Callable[[], float]]:
        """Stop the primary with SIGSTOP; yield what promotes the standby, and returns when it was writable."""
        self.primary.signal(signal.SIGSTOP)
        yield self._promote
        self.standby.stop(signal.SIGKILL)

    def renew_standby(self) -> None:
        """Let the server that was killed follow the one that was promoted."""
        subprocess.run(["rm", "-rf", str(self.standby.data)], check=True)
        self._follow()

    def close(self) -> None:
        self.primary.close()
        self.standby.close()

    def _promote(self) -> float:
        self.primary, self.standby = self.standby, self.primary
        self.primary.execute("SELECT pg_promote()")
        self.primary.set("synchronous_standby_names", "")
        _until_writable(self.primary)
        return time.monotonic()

    def _follow(self) -> None:
        self.standby.copy_from(self.primary, "standby")
        self.standby.start()
        self.primary.set("synchronous_standby_names", "standby")

    def _allow_replication(self, server: PostgresServer) -> None:
        with (server.data / "pg_hba.conf").open("a") as file:
            file.write("host all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n")


def _server() -> PostgresServer:
    return PostgresServer(
        listen_addresses="*", wal_level="replica", hot_standby="on", wal_receiver_status_interval="1"
    )


def _until_writable(server: PostgresServer) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            if server.execute("SELECT pg_is_in_recovery()") == [(False,)]:
                return
        except psycopg.Error:
            pass
        assert time.monotonic() < until, "the standby was not promoted"
        time.sleep(0.05)


class Partition:
    """Cuts a node off from the database: packets between them are dropped, in both directions."""

    def __init__(self, host: str, ports: tuple[int, ...]) -> None:
        listed = "{ " + ", ".join(map(str, ports)) + " }"
        self._rules = (
            "add table ip cut\n"
            "add chain ip cut output { type filter hook output priority 0; }\n"
            f"add rule ip cut output ip daddr {host} tcp dport {listed} drop\n"
            f"add rule ip cut output ip saddr {host} tcp sport {listed} drop\n"
        )

    def __enter__(self) -> Self:
        subprocess.run(["nft", "-f", "-"], input=self._rules.encode(), check=True)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["nft", "delete", "table", "ip", "cut"], check=True)
