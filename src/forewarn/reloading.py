"""Reloads a running service: its settings, its certificate and its fleet file, all or nothing.

Everything is read and checked before anything changes. What needs a restart stays as it is, and is named.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from ssl import SSLContext
from typing import Protocol

import msgspec

from forewarn import logs
from forewarn.config.setting_keys import SettingKey, keys_of
from forewarn.config.settings import KEYS, MailSettings, NoticeSettings, Settings, check
from forewarn.control.server.sockets import load_certificate, most_connections
from forewarn.core.errors import BadInput, ForewarnError, OutcomeUnknown
from forewarn.metadata.limits import provide_files
from forewarn.wiring import Assembly, limits_of

log = logging.getLogger(__name__)

_TABLES: dict[str, type[NoticeSettings] | type[MailSettings]] = {"notice": NoticeSettings, "mail": MailSettings}
"""The tables that the service reads; [network] is for ``forewarn network``."""
_TLS = ("control_certificate", "control_key")

_RELOAD = "reload"
_RESTART = "restart"


class SettingChanges(msgspec.Struct, frozen=True):
    """Result of comparing a new configuration with the running one."""

    settings: Settings
    """The settings in force from now on."""
    applied: tuple[str, ...] = ()
    """Settings that change while the service runs."""
    waiting: tuple[str, ...] = ()
    """Settings that differ and need a restart."""


class SupportsMailSettings(Protocol):
    """What sends mail to subscribers."""

    def set_mail(self, mail: MailSettings) -> None:
        """Send mail by another server."""


class SupportsCertificateRenewal(Protocol):
    """What speaks TLS to operators."""

    def renew_certificate(self, context: SSLContext) -> None:
        """Use another certificate on every new connection."""


class LastReload(msgspec.Struct, frozen=True):
    """The result of the last reload; before the first one, of the start."""

    at: float
    """When a reload last succeeded, in seconds since 1970."""
    is_successful: bool = True


class Reloader:
    """Applies changed settings and the fleet file. One reload at a time."""

    def __init__(self, read: Callable[[], Settings], assembly: Assembly, mailing: SupportsMailSettings) -> None:
        self.secured: SupportsCertificateRenewal | None = None
        self.read_peer_certificates: Callable[[], Callable[[], None]] = lambda: lambda: None
        """Reads the certificates for other nodes; what it returns puts them in force."""
        self._read = read
        self._assembly = assembly
        self._mailing = mailing
        self.last = LastReload(self._now())

    @property
    def status(self) -> str:
        """The result of the last reload, for the service manager."""
        warnings = self._assembly.node.warnings
        return warnings.get(_RELOAD) or warnings.get(_RESTART) or "reloaded"

    async def reload(self) -> None:
        """Reload, log what changed and what waits for a restart; on failure nothing has changed."""
        warnings = self._assembly.node.warnings
        try:
            changes = await self._apply()
        except ForewarnError as error:
            self.last = LastReload(self.last.at, is_successful=False)
            done = "may have changed the fleet" if isinstance(error, OutcomeUnknown) else "changed nothing"
            warnings[_RELOAD] = f"the last reload failed and {done}: {error}"
            fields = {"effect": done, "reason": str(error)}
            log.error("reload failed", extra={"fields": fields})  # noqa: TRY400 - a mistake in a file
            return
        self.last = LastReload(self._now())
        warnings.pop(_RELOAD, None)
        warnings.pop(_RESTART, None)
        log.info("reloaded", extra={"fields": {"changed": list(changes.applied) or "nothing"}})
        if changes.waiting:
            names = ", ".join(changes.waiting)
            warnings[_RESTART] = (
                f"changed in the configuration, but in force only after a restart of the service: {names}"
            )
            log.warning("restart needed for changed settings", extra={"fields": {"settings": list(changes.waiting)}})

    async def _apply(self) -> SettingChanges:
        running = self._assembly.settings
        changes = compare(running, fit_connections(self._read(), running.connections))
        settings = changes.settings
        self._check(settings, changes)
        context = load_certificate(settings.control_certificate, settings.control_key)
        renew_peer_certificates = self.read_peer_certificates()
        if settings.fleet:
            await self._assembly.apply_fleet_file(settings.fleet, "reload", strict=True)
        # From here on nothing can fail.
        logs.set_up(sys.stderr, settings.log_level, settings.log_format)
        self._assembly.reconfigure(settings)
        if settings.mail != running.mail:
            self._mailing.set_mail(settings.mail)
        if context and self.secured:
            self.secured.renew_certificate(context)
        renew_peer_certificates()
        return changes

    def _check(self, settings: Settings, changes: SettingChanges) -> None:
        """Refuse a configuration that is sound, but not while some of it waits for a restart."""
        try:
            check(settings)
        except BadInput as error:
            names = ", ".join(changes.waiting)
            raise BadInput(f"{error}; or restart the service, because {names} cannot change while it runs") from None

    def _now(self) -> float:
        return self._assembly.node.clock.now().timestamp()


def fit_connections(settings: Settings, known: int | None = None) -> Settings:
    """Provide files for the connections of both planes; let VMs have no more than there are files for.

    A number of connections that is ``known`` already is not warned of again.
    """
    connections, said = provide_files(limits_of(settings), most_connections() if settings.control else 0)
    if said and connections != known:
        log.warning(
            "fewer connections than configured", extra={"fields": {"connections": connections, "reason": said}}
        )
    return msgspec.structs.replace(settings, connections=connections)


def compare(running: Settings, wanted: Settings) -> SettingChanges:
    applied: list[str] = []
    waiting: list[str] = []
    for name, is_reloadable in _differences(running, wanted):
        (applied if is_reloadable else waiting).append(name)
    kept = {name: getattr(running, name) for name in waiting if name in KEYS}
    in_force = msgspec.structs.replace(wanted, **kept, driver_settings=running.driver_settings)
    return SettingChanges(in_force, tuple(applied), tuple(waiting))


def _differences(running: Settings, wanted: Settings) -> Iterator[tuple[str, bool]]:
    """Yield every setting that differs, and whether it can change while the service runs."""
    # TLS cannot be switched on or off on an open listener.
    keeps_tls = bool(running.control_certificate) == bool(wanted.control_certificate)
    for name, key in _different(KEYS, running, wanted):
        yield name, key.reloadable and (keeps_tls or name not in _TLS)
    for table, record in _TABLES.items():
        for name, key in _different(keys_of(record), getattr(running, table), getattr(wanted, table)):
            yield f"{table}.{name}", key.reloadable
    if running.driver == wanted.driver and running.driver_settings != wanted.driver_settings:
        yield f"drivers.{running.driver}", False


def _different(
    keys: dict[str, SettingKey], running: msgspec.Struct, wanted: msgspec.Struct
) -> Iterator[tuple[str, SettingKey]]:
    return ((name, key) for name, key in keys.items() if getattr(running, name) != getattr(wanted, name))
