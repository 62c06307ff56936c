"""What DHCP clients wrote down."""

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from forewarn.client.leases import endpoints_in, leased_endpoints, registered_endpoints
from tests.client.test_dhcp import WIRE_SERVER, offer

DHCLIENT = b"""
lease {
  interface "eth0";
  option unknown-245 a8:3f:81:10;
  expire 5 2026/01/02 03:04:05;
}
lease {
  interface "eth0";
  option unknown-245 0a:1:2:3;
}
"""


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (DHCLIENT, ("10.1.2.3", "168.63.129.16")),
        (rb'  option unknown-245 "\250?\201\020";', ("168.63.129.16",)),
        (b"ADDRESS=10.0.0.4\nOPTION_245=a83f8110\nOPTION_249=00\n", ("168.63.129.16",)),
        (b"[dhcp4]\nprivate_245=a8:3f:81:10\n", ("168.63.129.16",)),
        (b"unknown_245 = a8:3f:81:10", ("168.63.129.16",)),
        (b"option_245=168.63.129.16", ("168.63.129.16",)),
        (offer((245, WIRE_SERVER)), ("168.63.129.16",)),
        (offer(), ()),
        (b"OPTION_245=00000000", ()),
        (b"OPTION_245=999.1.1.1", ()),
        (b"OPTION_1245=a83f8110 OPTION_24=a83f8110", ()),
        (b"", ()),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_lease_names_the_service(content: bytes, found: tuple[str, ...]) -> None:
    """As dhclient, systemd-networkd, NetworkManager and dhcpcd write it; the newest lease of a file first."""
    assert endpoints_in(content) == found


def test_the_newest_file_comes_first_and_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    """Each address is named once."""
    for age, (name, address) in enumerate((("b", "0a000002"), ("a", "0a000001"), ("c", "0a000001"))):
        file = tmp_path / name
        file.write_text(f"OPTION_245={address}\n")
        os.utime(file, (1_000 - age, 1_000 - age))
    (tmp_path / "folder").mkdir()

    assert leased_endpoints([f"{tmp_path}/*", "/nowhere/*"]) == ("10.0.0.2", "10.0.0.1")


class Registry(ModuleType):
    """As much of Windows' registry as is read."""

    HKEY_LOCAL_MACHINE = 1
    values: dict[tuple[int, str, str], str]

    class Key:
        """An opened key."""

        def __init__(self, path: tuple[int, str]) -> None:
            self.path = path

        def __enter__(self) -> "Registry.Key":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def OpenKey(self, root: int, path: str) -> "Registry.Key":  # noqa: N802 - Windows' name
        if not any(known[:2] == (root, path) for known in self.values):
            raise FileNotFoundError(path)
        return Registry.Key((root, path))

    def QueryValueEx(self, key: "Registry.Key", name: str) -> tuple[str, int]:  # noqa: N802 - as above
        return self.values[*key.path, name], 1


def test_windows_registry_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the published discovery tool leaves it; where it has not run, and elsewhere, there is nothing."""
    registry = Registry("winreg")
    monkeypatch.setitem(sys.modules, "winreg", registry)
    registry.values = {(1, r"Software\ScheduledEvents", "ScheduledEventsIp"): "168.63.129.16"}

    assert registered_endpoints() == ("168.63.129.16",)
    registry.values = {}
    assert registered_endpoints() == ()
    monkeypatch.setitem(sys.modules, "winreg", None)
    assert registered_endpoints() == ()
