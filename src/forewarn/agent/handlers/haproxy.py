"""A handler that takes servers out of HAProxy: drains them until their sessions are gone, and makes them ready again.

Only what the handler itself drained is made ready again. That it is about to drain a server is on the disk first
(``claims``), so this holds after a crash too. A server that somebody else drained or put into maintenance stays so.
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
        self._admin = HaproxyAdminSocket(settings.socket)
        self._claims = UndoLog(directory)

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
            return HandlerDone(claimed, f"the time was over with {_show(left)}")
        return HandlerFailed(
            f"the time was over with {_show(left)}; see 'until_sessions', 'on_deadline' and 'timeout'"
        )

    def undo(self, task: Task) -> HandlerResult:
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
            except HaproxyRefused as error:
                return HandlerFailed(str(error))
            except HaproxyUnreachable as error:
                trouble = str(error)
                continue
            finally:
                self._claims.write(claimed)
            return HandlerDone(detail=f"ready again: {', '.join(readied)}" if readied else "")
        return HandlerFailed(trouble)

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerNotBegun()

    def close(self) -> None:
        pass

    def _drain(self, task: Task) -> dict[str, str]:
        """Drain what takes new sessions; return all servers drained in our name, with the state they had."""
        # All states first: one wrong name leaves every server as it is.
        states = {server: self._state(server, task) for server in self._settings.servers}
        ready = [server for server, state in states.items() if state is HaproxyServerState.READY]
        claimed = self._claims.read() | dict.fromkeys(ready, HaproxyServerState.READY.value)
        self._claims.write(claimed)
        for server in ready:
            self._admin.set_state(server, HaproxyServerState.DRAIN, question_timeout(task, _LONGEST_ANSWER))
        return claimed

    def _sessions(self, task: Task) -> dict[str, int]:
        """Return the sessions left on each server; raise Declined if one takes new sessions again."""
        for server in self._settings.servers:
            if self._state(server, task) is HaproxyServerState.READY:
                raise HaproxyRefused(
                    f"{server} takes new sessions again: HAProxy was reloaded, or somebody made it ready"
                )
        sessions = self._admin.sessions(question_timeout(task, _LONGEST_ANSWER))
        return {server: sessions.get(server, 0) for server in self._settings.servers}

    def _make_ready(self, server: str, task: Task) -> bool:
        """Make a server ready that is still drained; tell whether it was."""
        try:
            if self._state(server, task) is not HaproxyServerState.DRAIN:
                return False
        except HaproxyServerMissing:
            return False  # what is no longer there is not drained either
        self._admin.set_state(server, HaproxyServerState.READY, question_timeout(task, _LONGEST_ANSWER))
        return True

    def _state(self, server: str, task: Task) -> HaproxyServerState:
        return self._admin.state(server, question_timeout(task, _LONGEST_ANSWER))


def _show(left: dict[str, int]) -> str:
    counts = ", ".join(f"{count} on {server}" for server, count in left.items())
    return f"{sum(left.values())} sessions left ({counts})"
