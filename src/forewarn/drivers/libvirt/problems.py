"""Translate libvirt errors: each becomes one sentence with the host and, if known, the remedy."""

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
    """A libvirt call failed."""


class LibvirtUnreachable(LibvirtProblem, Unavailable):
    """libvirt does not answer."""


class DomainAbsent(LibvirtProblem):
    """The host has no such domain."""


class LibvirtUnsupported(LibvirtProblem):
    """libvirt or the machine does not support the call."""


def problem_of(host: str, error: libvirt.libvirtError, what: str = "") -> LibvirtProblem:
    """Return the exception for a libvirt error of ``host`` while doing ``what``."""
    code = error.get_error_code()
    if code in _GONE or _is_connection_error(error):
        return LibvirtUnreachable(
            f"libvirt on {host} cannot be reached: {message_of(error)}; {connection_remedy(message_of(error))}"
        )
    kind = DomainAbsent if code in _ABSENT else LibvirtUnsupported if code in _UNSUPPORTED else LibvirtProblem
    return kind(describe(host, error, what))


def describe(host: str, error: libvirt.libvirtError, what: str = "") -> str:
    """Return libvirt's message with its host, and the remedy if known."""
    said = message_of(error)
    return f"{what}: libvirt on {host} says: {said}{_remedy(said)}".removeprefix(": ")


def message_of(error: libvirt.libvirtError) -> str:
    """Return libvirt's own message in one line."""
    return " ".join((error.get_error_message() or str(error)).split()).rstrip(".")


def connection_remedy(said: str) -> str:
    if "Host key verification failed" in said:
        return "log in there once with ssh as the user that runs Forewarn, to accept the host's key"
    if "Permission denied (" in said:
        return "set up an ssh key without a passphrase for the user that runs Forewarn"
    return "check that it runs and that Forewarn's user has access"


def _is_connection_error(error: libvirt.libvirtError) -> bool:
    sources = {libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE, libvirt.VIR_FROM_SSH, libvirt.VIR_FROM_LIBSSH}
    return error.get_error_domain() in sources and error.get_error_code() in {
        libvirt.VIR_ERR_SYSTEM_ERROR,
        libvirt.VIR_ERR_INTERNAL_ERROR,
    }


def _remedy(said: str) -> str:
    if "No space left on device" in said:
        return "; free some space there"
    if "without shared storage" in said:
        return "; put its disks where both hosts have them, or set copy_disks"
    if "cannot set up guest memory" in said.lower() or "Cannot allocate memory" in said:
        return "; the host has too little free memory for it"
    return ""
