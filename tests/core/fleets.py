"""Fleets to begin with, and what may be declared of them later: small, and full of neighbours."""

from functools import cache
from uuid import UUID

from hypothesis import strategies as st
from msgspec.structs import replace

from forewarn.core.commands import ChangeFleet
from forewarn.core.model import (
    ApprovalRule,
    Caller,
    CallerKind,
    EvictionPolicy,
    GroupKind,
    GroupTerms,
    Host,
    Policy,
    Vm,
)

ANN = Caller(CallerKind.OPERATOR, "ann")
STRANGE_ID = "00000000-0000-4000-8000-000000000000"
HOSTS = ("h0", "h1", "h2")
VMS = tuple(f"v{number}" for number in range(7))
GROUPS = {
    "web": GroupKind.AVAILABILITY_SET,
    "pool": GroupKind.SCALE_SET,
    "role": GroupKind.CLOUD_SERVICE,
    "lone": GroupKind.STANDALONE,
    "sole": GroupKind.STANDALONE,
}
ADDRESSES = ("", "10.0.0.1", "10.0.0.2", "10.0.0.3")
QUIET = ((), (), (), ("11:00-12:10",), ("12:10-12:20", "Mon,Tue 12:20-12:30 Europe/Berlin"))


def policies(quorum: int) -> st.SearchStrategy[Policy]:
    return st.builds(
        Policy,
        quorum=st.just(quorum),
        approve_user_reboot=st.booleans(),
        approve_user_redeploy=st.booleans(),
        approve_all_down=st.booleans(),
        restart_after_crash=st.booleans(),
        postpone_limit=st.sampled_from([0, 600, 3600]),
        quiet_hours=st.sampled_from(QUIET),
    )


@cache
def terms_of(group: str) -> st.SearchStrategy[GroupTerms]:
    return st.sampled_from(ApprovalRule).flatmap(lambda approval: _terms_with(group, approval))


@cache  # to make a strategy costs more than to draw from it
def _terms_with(group: str, approval: ApprovalRule) -> st.SearchStrategy[GroupTerms]:
    kind = GROUPS[group]
    return st.builds(
        GroupTerms,
        st.just(group),
        st.just(kind),
        st.just(approval),
        st.sampled_from([None, 300, 900]) if kind is GroupKind.SCALE_SET else st.none(),
        st.sampled_from(EvictionPolicy),
        policies(quorum=1 if approval is ApprovalRule.QUORUM else 0),
    )


@cache
def vms_named(name: str) -> st.SearchStrategy[Vm]:
    return st.builds(
        Vm,
        name=st.just(name),
        group=st.sampled_from(["web", "web", "web", "web", "pool", *GROUPS]),
        host=st.sampled_from(["h0", "h0", "h0", "h1", "h1", "h2", ""]),
        update_domain=st.integers(0, 1),
        fault_domain=st.integers(0, 1),
        address=st.sampled_from(ADDRESSES),
        spot=st.booleans(),
    )


@st.composite
def fleets(draw: st.DrawFn) -> ChangeFleet:
    """A fleet to begin with: every group wanted, addresses and lone VMs where nothing stands against them."""
    vms: list[Vm] = []
    for name in VMS[: draw(st.integers(4, len(VMS)))]:
        vm = draw(vms_named(name))
        is_taken = GROUPS[vm.group] is GroupKind.STANDALONE and any(other.group == vm.group for other in vms)
        address = "" if any(other.address == vm.address for other in vms) else vm.address
        vms.append(replace(vm, group="web" if is_taken else vm.group, address=address))
    groups = sorted({vm.group for vm in vms})
    return ChangeFleet(
        id=str(UUID(int=0)),
        by=ANN,
        hosts=tuple(Host(name) for name in HOSTS),
        groups=tuple(draw(terms_of(group)) for group in groups),
        vms=tuple(vms),
    )
