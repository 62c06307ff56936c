"""Which changed settings a running service takes over."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forewarn.config.setting_changes import compare
from forewarn.config.setting_keys import keys_of
from forewarn.config.settings import KEYS, MailSettings, NetworkSettings, NoticeSettings, Settings
from tests.config.test_settings import SAMPLES

RUNNING = Settings(control_certificate=Path("old.pem"))


def changed(**given: Any) -> Settings:
    return msgspec.structs.replace(RUNNING, **given)


@pytest.mark.parametrize("name", KEYS)
def test_a_change_is_taken_over_or_waits_as_its_key_says(name: str) -> None:
    """Every setting; what waits stays what it was."""
    changes = compare(RUNNING, changed(**{name: SAMPLES[name][1]}))

    assert (changes.applied, changes.waiting) == (((name,), ()) if KEYS[name].reloadable else ((), (name,)))
    in_force = SAMPLES[name][1] if KEYS[name].reloadable else getattr(RUNNING, name)
    assert getattr(changes.settings, name) == in_force


def test_nothing_that_needs_another_process_changes_while_running() -> None:
    """Where it listens, where its data is, what drives machines, and how durations are counted."""
    assert {name for name, key in KEYS.items() if not key.reloadable} == {
        "control", "data", "driver", "hurry", "identity", "journal", "metadata",
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
