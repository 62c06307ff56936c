"""Who may do what: the table, and what an owner sees of the fleet."""

import pytest

from forewarn.core.access import ACTION_OF_OPERATION, PERMITTED, Action, Principal
from forewarn.core.commands import VmOperation
from forewarn.core.errors import NotAllowed, Unknown
from forewarn.core.facts import FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind, GroupKind, GroupTerms, Host, Role, Vm
from tests.core.harness import FleetHarness


@pytest.fixture
def fleet() -> Fleet:
    fleet = Fleet()
    kind = GroupKind.AVAILABILITY_SET
    fleet.evolve(
        FleetChanged(
            (Host("h1"),),
            (GroupTerms("web", kind), GroupTerms("shop", kind)),
            (Vm("web-0", "web", "h1"), Vm("shop-0", "shop", "h1")),
        )
    )
    return fleet


def principal(role: Role, *groups: str) -> Principal:
    return Principal(Caller(CallerKind.OPERATOR, "ada"), role, frozenset(groups))


def test_an_operator_may_do_everything() -> None:
    """No action is left out of its row."""
    assert PERMITTED[Role.OPERATOR] == frozenset(Action)


def test_an_owner_may_do_what_the_table_of_roles_says_and_no_more() -> None:
    """Restart, redeploy, delete, approve, ask for more time, and read."""
    assert PERMITTED[Role.OWNER] == {
        Action.READ_VMS,
        Action.READ_HISTORY,
        Action.READ_ITSELF,
        Action.OPERATE_VMS,
        Action.RESTART,
        Action.REDEPLOY,
        Action.DELETE,
        Action.APPROVE,
        Action.POSTPONE,
    }


def test_a_viewer_only_reads() -> None:
    """Every action that it may do begins with the word."""
    assert all(action.name.startswith("READ_") for action in PERMITTED[Role.VIEWER])


def test_every_operation_on_a_vm_has_its_action() -> None:
    """None can be done by whoever may do any."""
    assert set(ACTION_OF_OPERATION) == set(VmOperation)
    assert len(set(ACTION_OF_OPERATION.values())) == len(VmOperation)


def test_a_refusal_says_what_the_role_may_not() -> None:
    """And what to do instead."""
    with pytest.raises(NotAllowed, match="a viewer may not restart VMs; use a token of another role"):
        principal(Role.VIEWER).require(Action.RESTART)


def test_an_owner_is_told_the_same_of_what_is_anothers_and_of_what_is_nowhere(fleet: Fleet) -> None:
    """The words differ in the name alone."""
    owner = principal(Role.OWNER, "web")
    said = []
    for name in ("shop-0", "shop-1"):
        with pytest.raises(Unknown) as refused:
            owner.vm(fleet, name)
        said.append(str(refused.value).replace(name, "it"))

    assert said[0] == said[1] == "there is no VM 'it'"
    with pytest.raises(Unknown, match=r"^there is no group 'shop'$"):
        owner.group(fleet, "shop")


def test_suggestions_name_only_what_may_be_seen(fleet: Fleet) -> None:
    """An owner's typing error is not answered with another's name."""
    with pytest.raises(Unknown, match="did you mean 'web-0'"):
        principal(Role.OWNER, "web").vm(fleet, "web-00")
    with pytest.raises(Unknown, match="did you mean 'shop-0'"):
        principal(Role.VIEWER).vm(fleet, "shop-00")


def test_a_group_that_is_gone_is_seen_by_no_owner(fleet: Fleet) -> None:
    """Its name in a token harms nobody."""
    assert list(principal(Role.OWNER, "web", "gone").known_groups(fleet)) == ["web"]
    assert list(principal(Role.OWNER, "gone").known_vms(fleet)) == []


@pytest.mark.parametrize(
    ("who", "seen"),
    [
        (principal(Role.OPERATOR), ["web", "shop"]),
        (principal(Role.VIEWER), ["web", "shop"]),
        (principal(Role.OWNER, "web"), ["web"]),
        (principal(Role.OWNER), []),
    ],
    ids=["operator", "viewer", "owner of one", "owner of none"],
)
def test_an_owner_sees_its_own_groups_and_everybody_else_all(who: Principal, seen: list[str], fleet: Fleet) -> None:
    """The groups, their VMs, and whether it may know of one."""
    assert [name for name in fleet.groups if who.sees(name)] == seen
    assert sorted(who.known_groups(fleet)) == sorted(seen)
    assert sorted(who.known_vms(fleet)) == sorted(f"{name}-0" for name in seen)
    assert [who.group(fleet, name).name for name in seen] == seen
    assert [who.vm(fleet, f"{name}-0").group for name in seen] == seen


def test_a_host_is_found_by_its_name(fleet: Fleet) -> None:
    """Whoever may know of hosts; one that is not there is answered with the nearest."""
    assert principal(Role.VIEWER).host(fleet, "h1").name == "h1"
    with pytest.raises(Unknown, match="there is no host 'h11'; did you mean 'h1'"):
        principal(Role.VIEWER).host(fleet, "h11")


def test_an_owner_knows_of_the_events_of_its_groups_and_everybody_else_of_all() -> None:
    """Also where nothing filters them again."""
    fleet = FleetHarness(
        "ann declares: group web availability-set; group shop availability-set; vm web-0 in web; vm shop-0 in shop",
        "ann freezes web-0",
        "ann freezes shop-0",
    ).fleet

    assert [event.group for event in principal(Role.OWNER, "web").known_events(fleet)] == ["web"]
    assert [event.group for event in principal(Role.VIEWER).known_events(fleet)] == ["web", "shop"]


def test_requests_belong_to_the_token_or_else_to_the_user() -> None:
    """Not to a name, which may be given anew."""
    caller = Caller(CallerKind.OPERATOR, "ada")

    assert Principal(caller, Role.OPERATOR, token="t1", uid=7).identity == ("token", "t1")  # noqa: S106
    assert Principal(caller, Role.OPERATOR, uid=7).identity == ("uid", "7")


def test_a_role_may_do_what_its_row_says() -> None:
    """And nothing else."""
    assert principal(Role.VIEWER).may(Action.READ_VMS)
    assert not principal(Role.VIEWER).may(Action.APPROVE)


def test_a_group_that_is_not_there_is_unknown_to_everybody(fleet: Fleet) -> None:
    """Also to an owner who has one of that name."""
    with pytest.raises(Unknown):
        principal(Role.OPERATOR).group(fleet, "db")
    with pytest.raises(Unknown):
        principal(Role.OWNER, "db").group(fleet, "db")


def test_a_viewer_reads_and_does_nothing() -> None:
    """Hosts, fleet, metrics and health beside what an owner reads."""
    owner_reads = {action for action in PERMITTED[Role.OWNER] if action.name.startswith("READ")}

    assert PERMITTED[Role.VIEWER] >= owner_reads | {
        Action.READ_HOSTS,
        Action.READ_FLEET,
        Action.READ_METRICS,
        Action.READ_HEALTH,
    }
    assert all(action.name.startswith("READ") for action in PERMITTED[Role.VIEWER])


@pytest.mark.parametrize(("role", "named"), [(Role.OWNER, "an owner"), (Role.VIEWER, "a viewer")])
def test_a_refusal_names_the_role(role: Role, named: str) -> None:
    """With its article."""
    with pytest.raises(NotAllowed, match=f"{named} may not"):
        principal(role).require(Action.KEEP_TOKENS)
