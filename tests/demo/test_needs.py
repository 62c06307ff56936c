"""What the demo says where it cannot run."""

import os
import platform
import shutil
from pathlib import Path

import pytest

from demo import needs


@pytest.fixture(autouse=True)
def _fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine be fit, whatever it is."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}")
    monkeypatch.setattr(needs, "_free_memory", lambda: 2_000_000)
    monkeypatch.setattr(needs, "_TUN", Path("/dev/null"))


def test_nothing_is_missing_on_a_fit_machine() -> None:
    """A machine with everything gets no word."""
    assert list(needs.missing()) == []


def test_whoever_is_not_root_is_told_how_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the command."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert list(needs.missing()) == ["The demo makes a network of its own, which only root may: run sudo make demo."]


def test_every_missing_program_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """One command installs them all."""
    monkeypatch.setattr(shutil, "which", lambda program: None if program in {"ip", "qemu-system-x86_64"} else program)

    assert list(needs.missing()) == [
        "Not everything is installed; on Debian: apt-get install iproute2 qemu-system-x86."
    ]


def test_all_that_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory, no tun device, another processor: three sentences."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(needs, "_TUN", Path("/dev/net/no-such-device"))
    monkeypatch.setattr(needs, "_free_memory", lambda: 300_000)

    said = list(needs.missing())

    assert len(said) == 3
    assert "aarch64" in said[0]
    assert "no-such-device" in said[1]
    assert "300 MB are free" in said[2]
