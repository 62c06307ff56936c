"""Compares settings on reload: which changed, and which of them a running service applies (``reloadable``)."""

from collections.abc import Iterator

import msgspec

from forewarn.config.setting_keys import SettingKey, keys_of
from forewarn.config.settings import KEYS, MailSettings, NoticeSettings, Settings

_TABLES: dict[str, type[NoticeSettings] | type[MailSettings]] = {"notice": NoticeSettings, "mail": MailSettings}
"""The tables that the service reads; [network] is for ``forewarn network``."""
_TLS = ("control_certificate", "control_key")


class SettingChanges(msgspec.Struct, frozen=True):
    """Result of comparing a new configuration with the running one."""

    settings: Settings
    """The settings in force from now on."""
    applied: tuple[str, ...] = ()
    """Settings that change while the service runs."""
    waiting: tuple[str, ...] = ()
    """Settings that differ and need a restart."""


def compare(running: Settings, wanted: Settings) -> SettingChanges:
    """Compare the running settings with the wanted ones."""
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
