"""What the demo says where it cannot run."""

import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from demo import needs

TUN = Path("/dev/null")
"""It is there, whatever the machine has."""


class Usage(NamedTuple):
    """What a disk has."""

    free: int


@pytest.fixture(autouse=True)
def _fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine be fit, whatever it is."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}")
    monkeypatch.setattr(needs, "_free_memory", lambda: 2_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/home")


def test_nothing_is_missing_on_a_fit_machine() -> None:
    """A machine with everything gets no word."""
    assert list(needs.missing(TUN)) == []


def test_whoever_is_not_root_is_told_how_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the command."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert list(needs.missing(TUN)) == [
        "The demo makes a network of its own, which only root may: run sudo make demo."
    ]


def test_every_missing_program_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """One command installs them all."""
    monkeypatch.setattr(shutil, "which", lambda program: None if program in {"ip", "qemu-system-x86_64"} else program)

    assert list(needs.missing(TUN)) == [
        "Not everything is installed; on Debian: apt-get install iproute2 qemu-system-x86."
    ]


def test_all_that_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory, no tun device, another processor: three sentences."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(needs, "_free_memory", lambda: 300_000)

    said = list(needs.missing(Path("/dev/net/no-such-device")))

    assert len(said) == 3
    assert "aarch64" in said[0]
    assert "no-such-device" in said[1]
    assert "300 MB are free" in said[2]


def test_too_little_room_is_said_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kernel that is there already needs none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100_000_000))
    assert list(needs.missing(TUN)) == [f"The demo needs 500 MB in {tmp_path}, and 100 MB are free: make room."]

    (tmp_path / "forewarn" / "linux-image-1").mkdir(parents=True)
    (tmp_path / "forewarn" / "linux-image-1" / "vmlinux").touch()
    assert list(needs.missing(TUN)) == []


def test_a_directory_whose_path_is_too_long_for_sockets_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable that chooses another."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/" + "x" * 61)
    (said,) = needs.missing(TUN)

    assert said.endswith("is too long for sockets in it: TMPDIR=/tmp make demo.")
