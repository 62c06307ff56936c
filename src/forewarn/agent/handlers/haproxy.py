"""Handler ``haproxy``: drains servers in HAProxy until their sessions have ended, and makes them ready again.

Only servers that the handler itself drained are made ready again. A server is in the undo log before it is drained,
so this also holds after a crash. A server that an administrator drained or put into maintenance stays so.
"""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec

from forewarn.agent.handler import HandlerDone, HandlerFailed, HandlerNotBegun, HandlerOutcome, HandlerResult, Task
from forewarn.agent.handlers.haproxy_socket import (
    HaproxyAdminSocket,
    HaproxyRefused,
    HaproxyServerMissing,
    HaproxyServerState,
    HaproxyUnreachable,
)
from forewarn.agent.handlers.polling import polls, question_timeout
from forewarn.agent.handlers.undo_log import UndoLog
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput

_SERVER = re.compile(r"[A-Za-z0-9_.:-]+/[A-Za-z0-9_.:-]+")
_LONGEST_ANSWER = 5.0
"""Timeout of one HAProxy command in seconds."""


class HaproxySettings(msgspec.Struct, frozen=True):
    """HAProxy's address, and the servers of this VM."""

    servers: Annotated[list[str], msgspec.Meta(min_length=1)]
    """Each as ``backend/server``."""
    socket: str = "/run/haproxy/admin.sock"
    """The path of the admin socket, or host:port."""
    until_sessions: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Number of sessions that may remain on all servers together."""
    on_deadline: Literal["fail", "go-on"] = "fail"
    """Result if more sessions remain at the deadline."""
    poll: timedelta = timedelta(seconds=1)


class HaproxyHandler:
    """Drains this VM's servers in HAProxy."""

    repeats = True
    shared = True

    def __init__(self, settings: HaproxySettings, directory: Path) -> None:
        self._settings = settings
        self._admin = HaproxyAdminSocket(settings.socket)
        self._undo_log = UndoLog(directory)

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> Self:
        read = read_table("handler 'haproxy'", settings, HaproxySettings)
        for server in read.servers:
            if not _SERVER.fullmatch(server):
                raise BadInput(
                    f"setting 'servers' of handler 'haproxy': {server!r} is not a valid server; write backend/server"
                )
        if read.poll < timedelta(seconds=0.05):
            raise BadInput("setting 'poll' of handler 'haproxy' is too short; give 0.05s or more")
        return cls(read, directory)

    def do(self, task: Task) -> HandlerResult:
        try:
            claimed = self._drain(task)
            left: dict[str, int] = {}
            for _ in polls(task, self._settings.poll):
                left = self._sessions(task)
                if sum(left.values()) <= self._settings.until_sessions:
                    return HandlerDone(claimed, _show(left))
        except (HaproxyRefused, HaproxyUnreachable) as error:
            return HandlerFailed(str(error))
        if task.stopping.is_set():
            return HandlerFailed(f"the agent stopped while it waited for {_show(left)}")
        if self._settings.on_deadline == "go-on":
            return HandlerDone(claimed, f"the deadline passed with {_show(left)}")
        return HandlerFailed(
            f"the deadline passed with {_show(left)}; see 'until_sessions', 'on_deadline' and 'timeout'"
        )

    def undo(self, task: Task) -> HandlerResult:
        try:
            readied = self._undo_log.undo(
                task, self._settings.poll, lambda server: self._make_ready(server, task), HaproxyUnreachable
            )
        except (HaproxyRefused, HaproxyUnreachable) as error:
            return HandlerFailed(str(error))
        return HandlerDone(detail=f"ready again: {', '.join(readied)}" if readied else "")

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerNotBegun()

    def close(self) -> None:
        pass

    def _drain(self, task: Task) -> dict[str, str]:
        """Drain the ready servers; return all servers that this handler drained, with their previous state."""
        # Read all states first: a wrong name leaves all servers unchanged.
        states = {server: self._state(server, task) for server in self._settings.servers}
        ready = [server for server, state in states.items() if state is HaproxyServerState.READY]
        claimed = self._undo_log.read() | dict.fromkeys(ready, HaproxyServerState.READY.value)
        self._undo_log.write(claimed)
        for server in ready:
            self._admin.set_state(server, HaproxyServerState.DRAIN, question_timeout(task, _LONGEST_ANSWER))
        return claimed

    def _sessions(self, task: Task) -> dict[str, int]:
        """Return the sessions left on each server; raise HaproxyRefused if one is ready again."""
        for server in self._settings.servers:
            if self._state(server, task) is HaproxyServerState.READY:
                raise HaproxyRefused(
                    f"{server} accepts new sessions again: HAProxy was reloaded, or the server was made ready"
                )
        sessions = self._admin.sessions(question_timeout(task, _LONGEST_ANSWER))
        return {server: sessions.get(server, 0) for server in self._settings.servers}

    def _make_ready(self, server: str, task: Task) -> bool:
        """Make a server ready if it is still drained; return whether it was."""
        try:
            if self._state(server, task) is not HaproxyServerState.DRAIN:
                return False
        except HaproxyServerMissing:
            return False  # a server that no longer exists is not drained
        self._admin.set_state(server, HaproxyServerState.READY, question_timeout(task, _LONGEST_ANSWER))
        return True

    def _state(self, server: str, task: Task) -> HaproxyServerState:
        return self._admin.state(server, question_timeout(task, _LONGEST_ANSWER))


def _show(left: dict[str, int]) -> str:
    counts = ", ".join(f"{count} on {server}" for server, count in left.items())
    return f"{sum(left.values())} sessions left ({counts})"
