"""Which settings changed, and which changes a running service takes over: those whose key is ``reloadable``."""

from collections.abc import Iterator

import msgspec

from forewarn.config.setting_keys import SettingKey, keys_of
from forewarn.config.settings import KEYS, MailSettings, NoticeSettings, Settings

_TABLES: dict[str, type[NoticeSettings] | type[MailSettings]] = {"notice": NoticeSettings, "mail": MailSettings}
"""The tables that the service reads; [network] is for ``forewarn network``."""
_TLS = ("control_certificate", "control_key")


class SettingChanges(msgspec.Struct, frozen=True):
    """What another configuration changes in a running service."""

    settings: Settings
    """What the service runs with from now on."""
    applied: tuple[str, ...] = ()
    """The settings that change while it runs."""
    waiting: tuple[str, ...] = ()
    """The settings that differ, and need a restart."""


def compare(running: Settings, wanted: Settings) -> SettingChanges:
    """Compare what runs with what a file asks for."""
    applied: list[str] = []
    waiting: list[str] = []
    for name, is_reloadable in _differences(running, wanted):
        (applied if is_reloadable else waiting).append(name)
    kept = {name: getattr(running, name) for name in waiting if name in KEYS}
    in_force = msgspec.structs.replace(wanted, **kept, driver_settings=running.driver_settings)
    return SettingChanges(in_force, tuple(applied), tuple(waiting))


def _differences(running: Settings, wanted: Settings) -> Iterator[tuple[str, bool]]:
    """Yield every setting that differs, and whether it may change while the service runs."""
    # A listener speaks TLS from its first connection to its last, or never.
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
