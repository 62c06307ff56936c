"""What one VM is called by events, by itself and by Kubernetes.

    events (Resources)      vmss_18       aks-nodepool1-21922338-vmss_39       web-0      vmss_a1b2c3d4 (Flexible)
    host and node name      vmss00000i    aks-nodepool1-21922338-vmss000013    web-0      cannot be computed

Names are the same in any case. In the first api-version they begin with an underscore.
"""

import re
from collections.abc import Iterable

from forewarn.core.errors import BadInput

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WIDTH = 6
# Cloud services number their VMs too (FrontEnd_IN_0), and name their hosts otherwise.
_UNIFORM = re.compile(r"(?!.*_IN_[0-9]+$)(.+)_([0-9]+)")
_FLEXIBLE = re.compile(r".+_[0-9a-f]{8}", re.IGNORECASE)
_HOST = re.compile(r"(.+?)([0-9a-z]{6})", re.IGNORECASE)


def is_same(resource: str, name: str) -> bool:
    """Tell whether an event's resource and a VM's name are the same VM."""
    return resource.removeprefix("_").casefold() == name.removeprefix("_").casefold()


def host_name_of(resource: str) -> str:
    """Return the host name, which is also the Kubernetes node name, of the VM that events call ``resource``.

    A VM outside scale sets is taken to be named alike, which its owner may have done otherwise. The host name of a
    VM in a Flexible scale set is drawn by chance: BadInput says so.
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


def scale_set_name_of(host_name: str) -> str:
    """Return what events call the VM of a Uniform scale set that has this host or node name."""
    short = host_name.partition(".")[0]
    match = _HOST.fullmatch(short)
    if not match:
        raise BadInput(f"{host_name!r} is no host name of a scale set; they end in six digits or letters")
    return f"{match[1]}_{int(match[2], len(_DIGITS))}"


def find_name(host_name: str, resources: Iterable[str]) -> str:
    """Return the resource that is the VM of this host name; empty when none is."""
    short = host_name.partition(".")[0]
    for resource in resources:
        is_uniform = _UNIFORM.fullmatch(resource) and not _FLEXIBLE.fullmatch(resource)
        if is_same(resource, short) or (is_uniform and host_name_of(resource) == short.lower()):
            return resource.removeprefix("_")
    return ""
