"""Which boot of the machine this is, so that a reboot can be told from a restart of the agent."""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return what changes with every boot and with nothing else; empty where the system does not tell."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
