"""The site of the bench: guests that can stand on two hosts, and a neighbour that is only an address."""

from demo.guest import Guest
from demo.site import Site

VM = "web-0"
HOSTS = ("h1", "h2")
BRIDGE_ADDRESS = "10.0.0.1"
"""The site's own, from which a process in its network asks."""
_PIECE = 8
"""MiB."""
FLEET = f"""
[[host]]
name = "h1"
[[host]]
name = "h2"
[[group]]
name = "web"
kind = "scale-set"
[[vm]]
name = "{VM}"
group = "web"
host = "h1"
address = "{{address}}"
[[vm]]
name = "web-1"
group = "web"
host = "h2"
address = "{{bridge}}"
"""


def booted(site: Site, vm: str = VM, number: int = 0, *, memory: int = 96, used: int = 0) -> str:
    """Boot a guest on the first host; return its address when it runs its script, and uses so many MiB of memory."""
    address = site.describe(vm, number, memory=memory)
    guest = Guest(site, vm)
    guest.start()
    guest.wait_for("its first question", lambda: bool(guest.said("events")))
    if used:
        # Not of zeroes, which would not be sent; copied, because a guest without KVM makes nothing else fast.
        guest.order(f"dd if=/dev/urandom of=/run/piece bs=1M count={_PIECE}")
        for copy in range(1, used // _PIECE):
            guest.order(f"cp /run/piece /run/piece-{copy}")
    guest.close()
    return address


def end(site: Site, vm: str) -> None:
    """End a guest, wherever it stands."""
    for host in HOSTS:
        guest = Guest(site, vm, host)
        guest.stop()
        guest.close()


def settings(site: Site) -> dict[str, object]:
    """Return the settings with which the driver finds guests, and moves them."""
    start = site.command(site.start, "{vm}", "{host}")
    return {
        "qmp": str(site.place("{vm}", "{host}", "qmp")),
        "start": start,
        "receive": [*start, "{incoming}"],
        "incoming": f"unix:{site.place('{vm}', '{host}', 'incoming')}",
    }
