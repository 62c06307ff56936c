"""A handler that takes servers out of HAProxy: drains them until their sessions are gone, and makes them ready again.

Only what the handler itself drained is made ready again. That it is about to drain a server is on the disk first
(``claims``), so this holds after a crash too. A server that somebody else drained or put into maintenance stays so.
"""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec

from forewarn.agent.handler import Done, Failed, NotBegun, Outcome, Result, Task
from forewarn.agent.handlers.claims import Claims
from forewarn.agent.handlers.haproxy_socket import AdminSocket, Declined, Missing, ServerState, Unanswered
from forewarn.agent.handlers.polling import patience, polls
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput

_SERVER = re.compile(r"[A-Za-z0-9_.:-]+/[A-Za-z0-9_.:-]+")
_LONGEST_ANSWER = 5.0
"""Seconds that HAProxy may take to answer."""


class HaproxySettings(msgspec.Struct, frozen=True):
    """Where HAProxy listens, and which of its servers this VM is."""

    servers: Annotated[list[str], msgspec.Meta(min_length=1)]
    """Each as ``backend/server``."""
    socket: str = "/run/haproxy/admin.sock"
    """The path of the admin socket, or host:port."""
    until_sessions: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many sessions may be left on all servers together."""
    on_deadline: Literal["fail", "go-on"] = "fail"
    """What it means that more are left when the time is over."""
    poll: timedelta = timedelta(seconds=1)


class HaproxyHandler:
    """Drains this VM's servers in HAProxy."""

    repeats = True
    shared = True

    def __init__(self, settings: HaproxySettings, directory: Path) -> None:
        self._settings = settings
        self._admin = AdminSocket(settings.socket)
        self._claims = Claims(directory)

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> Self:
        read = read_table("handler 'haproxy'", settings, HaproxySettings)
        for server in read.servers:
            if not _SERVER.fullmatch(server):
                raise BadInput(
                    f"setting 'servers' of handler 'haproxy': {server!r} is no server; write backend/server"
                )
        if read.poll < timedelta(seconds=0.05):
            raise BadInput("setting 'poll' of handler 'haproxy' is too short; give 0.05s or more")
        return cls(read, directory)

    def do(self, task: Task) -> Result:
        try:
            claimed = self._drain(task)
            left: dict[str, int] = {}
            for _ in polls(task, self._settings.poll):
                left = self._sessions(task)
                if sum(left.values()) <= self._settings.until_sessions:
                    return Done(claimed, _show(left))
        except (Declined, Unanswered) as error:
            return Failed(str(error))
        if task.stopping.is_set():
            return Failed(f"the agent stopped while it waited for {_show(left)}")
        if self._settings.on_deadline == "go-on":
            return Done(claimed, f"the time was over with {_show(left)}")
        return Failed(f"the time was over with {_show(left)}; see 'until_sessions', 'on_deadline' and 'timeout'")

    def undo(self, task: Task) -> Result:
        claimed = task.kept | self._claims.read()
        readied: list[str] = []
        trouble = ""
        # After a reboot HAProxy may start later than the agent, so it is given the time there is.
        for _ in polls(task, self._settings.poll):
            try:
                for server in sorted(claimed):
                    if self._make_ready(server, task):
                        readied.append(server)
                    del claimed[server]
            except Declined as error:
                return Failed(str(error))
            except Unanswered as error:
                trouble = str(error)
                continue
            finally:
                self._claims.write(claimed)
            return Done(detail=f"ready again: {', '.join(readied)}" if readied else "")
        return Failed(trouble)

    def outcome_of(self, task: Task) -> Outcome:
        return NotBegun()

    def close(self) -> None:
        pass

    def _drain(self, task: Task) -> dict[str, str]:
        """Drain what takes new sessions; return all servers drained in our name, with the state they had."""
        # All states first: one wrong name leaves every server as it is.
        states = {server: self._state(server, task) for server in self._settings.servers}
        ready = [server for server, state in states.items() if state is ServerState.READY]
        claimed = self._claims.read() | dict.fromkeys(ready, ServerState.READY.value)
        self._claims.write(claimed)
        for server in ready:
            self._admin.set_state(server, ServerState.DRAIN, patience(task, _LONGEST_ANSWER))
        return claimed

    def _sessions(self, task: Task) -> dict[str, int]:
        """Return the sessions left on each server; raise Declined if one takes new sessions again."""
        for server in self._settings.servers:
            if self._state(server, task) is ServerState.READY:
                raise Declined(f"{server} takes new sessions again: HAProxy was reloaded, or somebody made it ready")
        sessions = self._admin.sessions(patience(task, _LONGEST_ANSWER))
        return {server: sessions.get(server, 0) for server in self._settings.servers}

    def _make_ready(self, server: str, task: Task) -> bool:
        """Make a server ready that is still drained; tell whether it was."""
        try:
            if self._state(server, task) is not ServerState.DRAIN:
                return False
        except Missing:
            return False  # what is no longer there is not drained either
        self._admin.set_state(server, ServerState.READY, patience(task, _LONGEST_ANSWER))
        return True

    def _state(self, server: str, task: Task) -> ServerState:
        return self._admin.state(server, patience(task, _LONGEST_ANSWER))


def _show(left: dict[str, int]) -> str:
    counts = ", ".join(f"{count} on {server}" for server, count in left.items())
    return f"{sum(left.values())} sessions left ({counts})"
