"""The guide to the libvirt driver: its table of settings is complete."""

import re
from datetime import timedelta
from pathlib import Path

import msgspec

from forewarn.config.durations import show_duration
from forewarn.drivers.libvirt.settings import LibvirtSettings

GUIDE = (Path(__file__).parents[3] / "docs/how-to/drive-libvirt.md").read_text()


def shown(field: msgspec.structs.FieldInfo) -> str:
    match field.default:
        case timedelta():
            return show_duration(field.default)
        case bool():
            return str(field.default).lower()
        case msgspec.NODEFAULT | "":
            return "empty"
        case None:
            return "none"
        case _:
            return str(field.default)


def test_the_guide_names_every_setting_with_its_default() -> None:
    """The table of settings is the record of settings."""
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", GUIDE, re.MULTILINE))

    assert rows == {field.name: shown(field) for field in msgspec.structs.fields(LibvirtSettings)}
