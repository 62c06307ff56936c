"""Reads the boot id of the machine, which distinguishes a reboot from a restart of the agent."""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the kernel's boot id; empty where the system has none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
