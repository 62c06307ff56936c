"""Two real PostgreSQL servers, ``left`` and ``right``: a primary, and a standby that follows it."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"))
AS_POSTGRES = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.geteuid() == 0 else []


class Server:
    """One server in a directory of its own."""

    def __init__(self, place: Path, port: int) -> None:
        self.place = place
        self.data = place / str(port)
        self.connection = f"host={place} port={port} user=postgres dbname=postgres"
        # PostgreSQL's own waiting for start and stop; without fsync the tests are not a test of the disk.
        self.start_command = (
            f"cd / && {' '.join(AS_POSTGRES)} {PROGRAMS}/pg_ctl -s -w -D {self.data} -l {place}/{port}.log"
            f" -o \"-p {port} -k {place} -h '' -F\" start"
        )
        self.stop_command = f"cd / && {' '.join(AS_POSTGRES)} {PROGRAMS}/pg_ctl -s -w -D {self.data} -m fast stop"

    def start(self) -> None:
        subprocess.run(["sh", "-c", self.start_command], check=True)

    def stop(self) -> None:
        subprocess.run(["sh", "-c", self.stop_command], check=True)

    def runs(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def ask(self, query: str) -> str:
        return run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.connection, "-c", query)

    def is_primary(self) -> bool:
        return self.ask("select pg_is_in_recovery()") == "f"


class Pair:
    """The primary ``left`` and its standby ``right``, with a table ``rows``."""

    def __init__(self) -> None:
        # Not below pytest's directories: the user postgres may not enter those.
        self.place = Path(tempfile.mkdtemp(prefix="forewarn-pair-"))
        if AS_POSTGRES:
            shutil.chown(self.place, "postgres", "postgres")
        self.left = Server(self.place, 5001)
        self.right = Server(self.place, 5002)
        run(PROGRAMS / "initdb", "-A", "trust", "-U", "postgres", "-N", "-D", self.left.data)
        self.left.start()
        self.left.ask("create table rows (n int primary key)")
        run(PROGRAMS / "pg_basebackup", "-N", "-R", "-c", "fast", "-d", self.left.connection, "-D", self.right.data)
        self.left.stop()
        run("mkdir", self.place / "beginning")
        run("mv", self.left.data, self.right.data, self.place / "beginning")

    def start(self) -> None:
        """Begin anew: the left is primary, the right follows."""
        self.left, self.right = sorted((self.left, self.right), key=lambda each: each.data)
        run("cp", "-a", *(self.place / "beginning").iterdir(), self.place)
        self.left.start()
        self.right.start()

    def stop(self) -> None:
        for server in (self.left, self.right):
            if server.runs():
                server.stop()
            shutil.rmtree(server.data)

    def close(self) -> None:
        shutil.rmtree(self.place)


def run(*argv: str | Path) -> str:
    return subprocess.run([*AS_POSTGRES, *argv], check=True, capture_output=True, text=True, cwd="/").stdout.strip()
