"""What systemd is told, on a real socket of its kind."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.systemd_notify import SystemdNotifier


class Manager:
    """The service manager's end."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.settimeout(30)

    def heard(self) -> str:
        return self._socket.recv(4096).decode()

    def is_silent(self) -> bool:
        self._socket.setblocking(False)
        try:
            self._socket.recv(4096)
        except BlockingIOError:
            return True
        return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(str(tmp_path / "notify"))
    yield found
    found.close()


def test_ready_status_and_stopping_are_told(manager: Manager, tmp_path: Path) -> None:
    """In systemd's words, a status in one line."""
    notifier = SystemdNotifier.from_environment({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    notifier.ready("listens to\n169.254.169.254")
    notifier.status("Reboot of web-0")
    notifier.stopping()

    assert manager.heard() == "READY=1\nSTATUS=listens to 169.254.169.254"
    assert manager.heard() == "STATUS=Reboot of web-0"
    assert manager.heard() == "STOPPING=1"


def test_a_reload_is_told_with_its_time(manager: Manager, tmp_path: Path) -> None:
    """The manager orders reloads by the monotonic clock; ready ends one."""
    notifier = SystemdNotifier.from_environment({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    notifier.reloading()
    notifier.ready()

    first, second = manager.heard().splitlines()
    assert first == "RELOADING=1"
    assert second.removeprefix("MONOTONIC_USEC=").isdecimal()
    assert manager.heard() == "READY=1"


def test_no_sign_of_life_while_the_process_says_it_has_none(manager: Manager, tmp_path: Path) -> None:
    """The loop turns, but what it must do does not; pings resume when that does."""
    lives = [False]

    async def live() -> None:
        notifier = SystemdNotifier.from_environment(
            {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}
        )
        notifier.ready(is_alive=lambda: lives[0])
        assert manager.heard() == "READY=1"
        assert manager.is_silent()
        assert notifier._next is not None
        lives[0] = True
        notifier._ping()
        notifier.stopping()

    asyncio.run(live())
    manager._socket.settimeout(30)
    assert manager.heard() == "WATCHDOG=1"


def test_an_abstract_address_is_reached() -> None:
    """One that begins with @ is no file."""
    name = f"forewarn-test-{os.getpid()}"
    manager = Manager(f"\0{name}")
    SystemdNotifier.from_environment({"NOTIFY_SOCKET": f"@{name}"}).ready()

    assert manager.heard() == "READY=1"
    manager.close()


def test_signs_of_life_come_at_twice_the_pace(manager: Manager, tmp_path: Path) -> None:
    """From readiness until the end, as long as the loop turns."""

    async def live() -> None:
        notifier = SystemdNotifier.from_environment(
            {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "40000", "WATCHDOG_PID": str(os.getpid())}
        )
        loop = asyncio.get_running_loop()
        notifier.ready()
        assert notifier._next is not None
        assert notifier._next.when() - loop.time() <= 0.02
        heard = [await loop.run_in_executor(None, manager.heard) for _ in range(4)]
        assert heard == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
        following = notifier._next
        notifier.stopping()
        assert following.cancelled()

    asyncio.run(live())
    while manager.heard() != "STOPPING=1":
        pass


@pytest.mark.parametrize("other", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "often"}, {"WATCHDOG_USEC": "0"}])
def test_a_watchdog_for_another_is_not_fed(manager: Manager, tmp_path: Path, other: dict[str, str]) -> None:
    """The variables may come from a parent, or make no sense."""
    given = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000"}
    SystemdNotifier.from_environment(given | other).ready()

    assert manager.heard() == "READY=1"
    assert manager.is_silent()


def test_children_do_not_speak_for_the_agent() -> None:
    """What the manager said to the agent is not handed on to programs of handlers."""
    environment = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "PATH": "/bin"}
    SystemdNotifier.from_environment(environment)

    assert environment == {"PATH": "/bin"}


def test_without_a_manager_nothing_is_told() -> None:
    """Neither where none is named, nor where nobody listens any more."""
    SystemdNotifier.from_environment({}).ready("alone")
    SystemdNotifier.from_environment({"NOTIFY_SOCKET": "/nowhere/notify"}).ready("alone")


def test_without_unix_sockets_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.delattr(socket, "AF_UNIX")

    SystemdNotifier.from_environment({"NOTIFY_SOCKET": "/run/x"}).ready()
