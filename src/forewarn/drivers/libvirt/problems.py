"""What libvirt's refusals mean, each as one sentence that names the host and, where there is one, the remedy."""

import libvirt

from forewarn.core.errors import ForewarnError, Unavailable

_GONE = {
    libvirt.VIR_ERR_NO_CONNECT,
    libvirt.VIR_ERR_INVALID_CONN,
    libvirt.VIR_ERR_RPC,
    libvirt.VIR_ERR_AUTH_FAILED,
    libvirt.VIR_ERR_AUTH_UNAVAILABLE,
}
_ABSENT = {libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_INVALID_DOMAIN}
_UNSUPPORTED = {
    libvirt.VIR_ERR_NO_SUPPORT,
    libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
    libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
    libvirt.VIR_ERR_INVALID_ARG,
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
}


class LibvirtProblem(ForewarnError):
    """libvirt could not do it."""


class LibvirtUnreachable(LibvirtProblem, Unavailable):
    """libvirt does not answer."""


class DomainAbsent(LibvirtProblem):
    """The host has no such domain."""


class LibvirtUnsupported(LibvirtProblem):
    """Neither this libvirt nor this machine can do that."""


def problem_of(host: str, error: libvirt.libvirtError, what: str = "") -> LibvirtProblem:
    """Return what an error of libvirt's means for whoever asked ``what`` of ``host``."""
    code = error.get_error_code()
    if code in _GONE or _is_of_the_wire(error):
        return LibvirtUnreachable(
            f"libvirt on {host} cannot be reached: {message_of(error)}; {connection_remedy(message_of(error))}"
        )
    kind = DomainAbsent if code in _ABSENT else LibvirtUnsupported if code in _UNSUPPORTED else LibvirtProblem
    return kind(describe(host, error, what))


def describe(host: str, error: libvirt.libvirtError, what: str = "") -> str:
    """Return what libvirt on ``host`` says, and the remedy where there is one."""
    said = message_of(error)
    return f"{what}: libvirt on {host} says: {said}{_remedy(said)}".removeprefix(": ")


def message_of(error: libvirt.libvirtError) -> str:
    """Return libvirt's own words, in one line."""
    return " ".join((error.get_error_message() or str(error)).split()).rstrip(".")


def connection_remedy(said: str) -> str:
    """Return what to do about a libvirt that cannot be reached."""
    if "Host key verification failed" in said:
        return "log in there once with ssh as the user that runs Forewarn, so that the host's key is known"
    if "Permission denied (" in said:
        return "let the user that runs Forewarn log in there with a key that asks for no passphrase"
    return "see that it runs and lets us in"


def _is_of_the_wire(error: libvirt.libvirtError) -> bool:
    wire = {libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE, libvirt.VIR_FROM_SSH, libvirt.VIR_FROM_LIBSSH}
    return error.get_error_domain() in wire and error.get_error_code() in {
        libvirt.VIR_ERR_SYSTEM_ERROR,
        libvirt.VIR_ERR_INTERNAL_ERROR,
    }


def _remedy(said: str) -> str:
    if "No space left on device" in said:
        return "; free some space there"
    if "without shared storage" in said:
        return "; put its disks where both hosts have them, or set copy_disks"
    if "cannot set up guest memory" in said.lower() or "Cannot allocate memory" in said:
        return "; the host is too small for it, or too full"
    return ""
