"""What libvirt's errors are taken for."""

import libvirt
import pytest

from forewarn.drivers.libvirt.problems import DomainAbsent, LibvirtProblem, LibvirtUnreachable, problem_of


@pytest.mark.parametrize(
    ("domain", "code", "kind"),
    [
        (libvirt.VIR_FROM_RPC, libvirt.VIR_ERR_SYSTEM_ERROR, LibvirtUnreachable),
        (libvirt.VIR_FROM_QEMU, libvirt.VIR_ERR_SYSTEM_ERROR, LibvirtProblem),
        (libvirt.VIR_FROM_RPC, libvirt.VIR_ERR_OPERATION_FAILED, LibvirtProblem),
        (libvirt.VIR_FROM_QEMU, libvirt.VIR_ERR_NO_CONNECT, LibvirtUnreachable),
        (libvirt.VIR_FROM_QEMU, libvirt.VIR_ERR_NO_DOMAIN, DomainAbsent),
    ],
)
def test_only_an_error_of_the_connection_means_that_a_host_does_not_answer(
    domain: int, code: int, kind: type[LibvirtProblem]
) -> None:
    """The same code from the hypervisor is its own failure."""
    error = libvirt.libvirtError("made by hand")
    error.err = (code, domain, "it failed", 2, "", "", "", -1, -1)

    assert type(problem_of("h1", error)) is kind
