"""Two hosts of libvirt's test hypervisor that each have the same machine, for one driver."""

from pathlib import Path

from forewarn.clocks import SystemClock
from forewarn.drivers.libvirt.driver import LibvirtDriver

NODE = """\
<node>
  <domain type="test"><name>web-0</name><uuid>{uuid}</uuid><memory>1024</memory><os><type>hvm</type></os></domain>
</node>
"""
UUID = "5f0c1f7a-1d2c-4f0e-9a53-0f6f2b8d9a01"


def two_hosts(place: Path, h1: str, h2: str, *, by_pattern: bool = False, **more: object) -> LibvirtDriver:
    """Return a driver for h1 and h2, on which web-0 runs, is off or is gone."""
    hosts = {}
    for name in ("h1", "h2"):
        (place / f"{name}.xml").write_text(NODE.format(uuid=UUID))
        hosts[name] = f"test://{place}/{name}.xml"
    settings: dict[str, object] = {"uri": f"test://{place}/{{host}}.xml"} if by_pattern else {"hosts": hosts}
    driver = LibvirtDriver.from_settings(settings | more, SystemClock(), 1.0, place / "records")
    for name, state in (("h1", h1), ("h2", h2)):
        domain = driver._hosts.connection(name).lookupByName("web-0")
        if state != "runs":
            domain.destroy()
        if state == "gone":
            domain.undefine()
    return driver
