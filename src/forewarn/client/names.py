"""Names of one VM: in events, as host name, and as Kubernetes node name.

    events (Resources)      vmss_18       aks-nodepool1-21922338-vmss_39       web-0      vmss_a1b2c3d4 (Flexible)
    host and node name      vmss00000i    aks-nodepool1-21922338-vmss000013    web-0      cannot be computed

Names are compared case-insensitively. In the first api-version they begin with an underscore.
"""

import re
from collections.abc import Iterable

from forewarn.core.errors import BadInput

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WIDTH = 6
# Cloud services number their VMs too (FrontEnd_IN_0), with other host names.
_UNIFORM = re.compile(r"(?!.*_IN_[0-9]+$)(.+)_([0-9]+)")
_FLEXIBLE = re.compile(r".+_[0-9a-f]{8}", re.IGNORECASE)


def is_same(resource: str, name: str) -> bool:
    """Return whether an event's resource is the VM with this name."""
    return resource.removeprefix("_").casefold() == name.removeprefix("_").casefold()


def host_name_of(resource: str) -> str:
    """Return the host name (also the Kubernetes node name) of the VM with this resource name.

    Outside scale sets both names are assumed to be equal. The host name of a VM in a Flexible scale set is random:
    BadInput says so.
    """
    name = resource.removeprefix("_")
    if _FLEXIBLE.fullmatch(name):
        raise BadInput(
            f"{resource!r} is of a Flexible scale set, where host names are drawn by chance and cannot be computed; "
            "let each VM tell its own name"
        )
    match = _UNIFORM.fullmatch(name)
    if not match:
        return name.lower()
    number, digits = int(match[2]), ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return f"{match[1].lower()}{digits:0>{_WIDTH}}"


def find_name(host_name: str, resources: Iterable[str]) -> str:
    """Return the resource of the VM with this host name; empty if there is none."""
    short = host_name.partition(".")[0]
    for resource in resources:
        is_uniform = _UNIFORM.fullmatch(resource) and not _FLEXIBLE.fullmatch(resource)
        if is_same(resource, short) or (is_uniform and host_name_of(resource) == short.lower()):
            return resource.removeprefix("_")
    return ""
