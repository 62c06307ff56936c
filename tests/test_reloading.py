"""A reload of a running service: what changes, what waits, and that a mistake changes nothing."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from ssl import SSLContext
from typing import Any

import msgspec
import pytest

from forewarn.clocks import ManualClock
from forewarn.config.setting_keys import keys_of
from forewarn.config.settings import KEYS, MailSettings, NetworkSettings, NoticeSettings, Settings
from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput
from forewarn.core.model import EventType
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.journal.memory import MemoryJournal
from forewarn.reloading import Reloader, compare
from forewarn.wiring import Assembly
from tests.config.test_settings import SAMPLES

FLEET = """
[[vm]]
name = "web-0"
address = "127.0.0.11"
"""


class KeepingJournal(MemoryJournal):
    """Notes how long it is to keep history."""

    kept = timedelta(0)
    snapshot_due = False

    def take_snapshot(self, *, release: bool = True, now: datetime | None = None) -> None:
        raise NotImplementedError

    def compact(self, limit: int = 500) -> bool:
        raise NotImplementedError

    def keep_history(self, history: timedelta) -> None:
        self.kept = history


class ReloadHarness:
    """A service, and the configuration it reads."""

    def __init__(self, settings: Settings, clock: ManualClock) -> None:
        self.wanted: Settings | BadInput = settings
        self.journal = KeepingJournal()
        self.assembly = Assembly(settings, clock, self.journal, SimulatedDriver.from_settings({}, clock, 1.0))
        self.mail: list[MailSettings] = []
        self.certificates: list[SSLContext] = []
        self.reloader = Reloader(self.read, self.assembly, self)
        self.reloader.secured = self

    def read(self) -> Settings:
        if isinstance(self.wanted, BadInput):
            raise self.wanted
        return self.wanted

    def set_mail(self, mail: MailSettings) -> None:
        self.mail.append(mail)

    def renew_certificate(self, context: SSLContext) -> None:
        self.certificates.append(context)

    async def reload(self, **given: object) -> None:
        self.wanted = msgspec.structs.replace(self.assembly.settings, **given)
        await self.reloader.reload()

    @property
    def warnings(self) -> dict[str, str]:
        return self.assembly.node.warnings

    @property
    def vms(self) -> list[str]:
        return sorted(self.assembly.node.replica.fleet.vms)


def run(tmp_path: Path, story: Callable[[ReloadHarness], Awaitable[None]]) -> None:
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")

    async def play() -> None:
        settings = Settings(metadata=ListenAddress("127.0.0.1", 0), fleet=tmp_path / "fleet.toml")
        harness = ReloadHarness(settings, ManualClock())
        async with asyncio.timeout(20):
            await harness.assembly.start()
            try:
                await story(harness)
            finally:
                await harness.assembly.stop()

    asyncio.run(play())


def test_what_can_change_while_running_changes(tmp_path: Path) -> None:
    """Rules, limits, callers, history, mail and the log: each part works by the new settings."""

    async def story(harness: ReloadHarness) -> None:
        await harness.reload(
            rate_limit=1.0,
            rate_burst=1,
            connections=7,
            answer_ttl=1,
            allowed_hosts=("meta.example.org",),
            connections_per_caller=3,
            default_vm="web-0",
            user_operation_limit=9,
            history=timedelta(days=5),
            notice=NoticeSettings(freeze=timedelta(hours=1)),
            mail=MailSettings(host="mail.example", sender="f@example"),
            log_level="warning",
        )
        assembly = harness.assembly
        assert assembly.node.writer.rules.notices[EventType.FREEZE] == timedelta(hours=1)
        assert assembly.node.writer.rules.user_operation_limit == 9
        assert assembly._registry is not None
        assert assembly._registry.limits.connections == 7
        assert assembly._registry.limits.connections_per_caller == 3
        assert (
            assembly._registry.request_cache.read_single(b"GET /x HTTP/1.1\r\nHost: meta.example.org\r\n\r\n")
            is not None
        )
        assert assembly.metadata._rate.interval == 1.0
        assert assembly._listener is not None
        (listening,) = assembly._listener._sockets
        assert listening.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 1
        vm_entry = assembly._callers.entry_of("127.0.0.99")
        assert vm_entry is not None
        assert vm_entry.vm.name == "web-0"
        assert harness.journal.kept == timedelta(days=5)
        assert harness.mail == [MailSettings(host="mail.example", sender="f@example")]
        assert logging.getLogger().level == logging.WARNING
        assert (harness.warnings, harness.reloader.last.is_successful, harness.reloader.status) == (
            {},
            True,
            "reloaded",
        )

    run(tmp_path, story)


def test_the_fleet_file_is_applied_again(tmp_path: Path) -> None:
    """With what changed in it, in the name of the reload."""

    async def story(harness: ReloadHarness) -> None:
        assert harness.vms == ["web-0"]
        (tmp_path / "fleet.toml").write_text(FLEET + FLEET.replace("web-0", "web-1").replace(".11", ".12"))
        await harness.reload()
        assert harness.vms == ["web-0", "web-1"]

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("text", "said"),
    [("[[vm]\n", "fleet.toml, line 1"), ('[[vm]]\nnam = "x"\n', "fleet.toml, line 2: "), (None, "cannot be read")],
)
def test_a_broken_fleet_file_changes_nothing(tmp_path: Path, text: str | None, said: str) -> None:
    """Neither the fleet nor any setting; health says where the mistake is until a reload succeeds."""

    async def story(harness: ReloadHarness) -> None:
        if text is None:
            (tmp_path / "fleet.toml").unlink()
        else:
            (tmp_path / "fleet.toml").write_text(text)
        await harness.reload(rate_limit=1.0)
        assert said in harness.warnings["reload"]
        assert said in harness.reloader.status
        assert not harness.reloader.last.is_successful
        assert harness.assembly.settings.rate_limit == 5.0
        assert harness.vms == ["web-0"]

        (tmp_path / "fleet.toml").write_text(FLEET)
        await harness.reload(rate_limit=1.0)
        assert (harness.warnings, harness.assembly.settings.rate_limit) == ({}, 1.0)

    run(tmp_path, story)


def test_broken_settings_change_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nor is the fleet file applied; the log has the place."""

    async def story(harness: ReloadHarness) -> None:
        harness.wanted = BadInput("forewarn.toml, line 3: rate_limit is 'fast', expected a number, 0 or more")
        (tmp_path / "fleet.toml").write_text("")
        await harness.reloader.reload()
        assert harness.vms == ["web-0"]
        assert "forewarn.toml, line 3" in harness.warnings["reload"]

    run(tmp_path, story)
    assert 'reload failed effect="changed nothing" reason="forewarn.toml, line 3' in caplog.text


def test_what_waits_for_a_restart_is_named_until_it_is_changed_back(tmp_path: Path) -> None:
    """The running value stays in force."""

    async def story(harness: ReloadHarness) -> None:
        await harness.reload(hurry=60.0, rate_limit=2.0)
        assert harness.warnings["restart"].endswith(": hurry")
        assert (harness.assembly.settings.hurry, harness.assembly.settings.rate_limit) == (1.0, 2.0)
        await harness.reload(hurry=1.0)
        assert harness.warnings == {}

    run(tmp_path, story)


def test_a_change_that_is_safe_only_after_a_restart_is_refused(tmp_path: Path) -> None:
    """A default VM beside a listener that still is open to others would let anybody speak for it."""

    async def story(harness: ReloadHarness) -> None:
        harness.assembly.settings = msgspec.structs.replace(
            harness.assembly.settings, metadata=ListenAddress("0.0.0.0", 80)
        )
        await harness.reload(metadata=ListenAddress("127.0.0.1", 80), default_vm="web-0")
        assert "default_vm applies to callers on this machine only" in harness.warnings["reload"]
        assert "because metadata cannot change while it runs" in harness.warnings["reload"]
        assert harness.assembly._callers.default_vm == ""

    run(tmp_path, story)


def test_a_default_vm_that_is_nowhere_is_warned_of_until_it_is_there(tmp_path: Path) -> None:
    """It may come with the fleet file; where it was deleted meanwhile, a reload is not refused for it."""

    async def story(harness: ReloadHarness) -> None:
        await harness.reload(default_vm="web-7")
        assert "'web-7', but the fleet has no such VM; did you mean 'web-0'?" in harness.warnings["default_vm"]
        (tmp_path / "fleet.toml").write_text(FLEET + FLEET.replace("web-0", "web-7").replace(".11", ".17"))
        await harness.reload(default_vm="web-7")
        assert harness.warnings == {}

    run(tmp_path, story)


def test_the_certificate_for_other_nodes_is_renewed(tmp_path: Path) -> None:
    """Its files are read first, and put in force when nothing else can fail."""

    async def story(harness: ReloadHarness) -> None:
        renewed: list[float] = []

        def refuse() -> Callable[[], None]:
            raise BadInput("cluster_certificate cannot be used")

        harness.reloader.read_peer_certificates = lambda: lambda: renewed.append(harness.assembly.settings.rate_limit)
        await harness.reload(rate_limit=1.0)
        assert renewed == [1.0]
        harness.reloader.read_peer_certificates = refuse
        await harness.reload(rate_limit=2.0)
        assert "cluster_certificate cannot be used" in harness.warnings["reload"]
        assert harness.assembly.settings.rate_limit == 1.0

    run(tmp_path, story)


def test_a_certificate_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    """The one in use stays in use."""

    async def story(harness: ReloadHarness) -> None:
        broken = tmp_path / "broken.pem"
        broken.write_text("no certificate")
        harness.assembly.settings = msgspec.structs.replace(harness.assembly.settings, control_certificate=broken)
        await harness.reload(rate_limit=1.0)
        assert "broken.pem" in harness.warnings["reload"]
        assert (harness.certificates, harness.assembly.settings.rate_limit) == ([], 5.0)

    run(tmp_path, story)


RUNNING = Settings(control_certificate=Path("old.pem"))


def changed(**given: Any) -> Settings:
    return msgspec.structs.replace(RUNNING, **given)


@pytest.mark.parametrize("name", KEYS)
def test_a_change_is_taken_over_or_waits_as_its_key_says(name: str) -> None:
    """Every setting; what waits stays what it was."""
    other = ListenAddress("10.0.0.1", 8256) if name == "cluster" else SAMPLES[name][1]
    changes = compare(RUNNING, changed(**{name: other}))

    assert (changes.applied, changes.waiting) == (((name,), ()) if KEYS[name].reloadable else ((), (name,)))
    in_force = other if KEYS[name].reloadable else getattr(RUNNING, name)
    assert getattr(changes.settings, name) == in_force


def test_nothing_that_needs_another_process_changes_while_running() -> None:
    """Where it listens, where its data is, what drives machines, and how durations are counted."""
    assert {name for name, key in KEYS.items() if not key.reloadable} == {
        "cluster", "cluster_authority", "cluster_certificate", "cluster_key", "gate_programs", "node",
        "control", "data", "driver", "hurry", "identity", "journal", "metadata", "workers",
    }  # fmt: skip


def test_the_tables_of_notice_and_mail_are_taken_over() -> None:
    """Each setting is named with its table."""
    changes = compare(
        RUNNING, changed(notice=NoticeSettings(freeze=timedelta(1)), mail=MailSettings(host="m", sender="s"))
    )

    assert changes.applied == ("notice.freeze", "mail.host", "mail.sender")
    assert changes.settings.mail.host == "m"
    assert all(key.reloadable for record in (NoticeSettings, MailSettings) for key in keys_of(record).values())


def test_a_drivers_settings_wait_with_it() -> None:
    """The driver that runs keeps its own."""
    changes = compare(RUNNING, changed(driver_settings={"freeze": "1s"}))
    assert (changes.waiting, changes.settings) == (("drivers.simulated",), RUNNING)

    changes = compare(RUNNING, changed(driver="command", driver_settings={"program": "/bin/true"}))
    assert (changes.waiting, changes.settings) == (("driver",), RUNNING)


@pytest.mark.parametrize(("before", "after"), [(None, Path("new.pem")), (Path("old.pem"), None)])
def test_whether_tls_is_spoken_waits_for_a_restart(before: Path | None, after: Path | None) -> None:
    """A listener speaks it always, or never."""
    running = changed(control_certificate=before)
    changes = compare(running, changed(control_certificate=after))

    assert (changes.applied, changes.waiting) == ((), ("control_certificate",))
    assert changes.settings == running


def test_the_network_is_not_the_services() -> None:
    """What ``forewarn network`` reads each time concerns no running service."""
    changes = compare(RUNNING, changed(network=NetworkSettings(bridge="br1")))

    assert (changes.applied, changes.waiting) == ((), ())
