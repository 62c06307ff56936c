"""Faults of the control plane: access, idempotency, secrets, reloads."""

from planted.fault import Fault

_TENANTS = "No tenant learns of another."
_KEY = "A key belongs to one principal; a repetition is carried out once."

FAULTS = (
    Fault(
        name="One tenant's idempotency key answers another tenant",
        promise=_KEY,
        file="src/forewarn/control/api/idempotency.py",
        old="_hash(kind, id_, key).digest()",
        new="_hash(kind, key).digest()",
        found_by=("tests/control/api/test_idempotency.py",),
    ),
    Fault(
        name="A key is used for two different requests",
        promise=_KEY,
        file="src/forewarn/control/api/idempotency.py",
        old="            if entry.request.fingerprint != self.fingerprint:\n",
        new="            if entry.request.fingerprint[:0] != self.fingerprint[:0]:\n",
        found_by=("tests/control/api/test_idempotency.py",),
    ),
    Fault(
        name="A repetition that arrives during the first request is carried out",
        promise=_KEY,
        file="src/forewarn/control/api/idempotency.py",
        old="            lock = self._held[id_] = asyncio.Lock()\n",
        new="            lock = asyncio.Lock()\n",
        found_by=("tests/control/api/test_idempotency.py",),
    ),
    Fault(
        name="An owner lists the events of other groups",
        promise=_TENANTS,
        file="src/forewarn/core/access.py",
        old="        return (event for group in self.known_groups(fleet) for event in fleet.events_of(group))",
        new="        return (event for group in fleet.groups for event in fleet.events_of(group))",
        found_by=("tests/core/test_access.py",),
    ),
    Fault(
        name="An owner reads a VM of another group by its name",
        promise=_TENANTS,
        file="src/forewarn/core/access.py",
        old="        if vm is not None and self.sees(vm.group):\n",
        new="        if vm is not None:\n",
        found_by=("tests/core/test_access.py", "tests/control/api/test_roles.py"),
    ),
    Fault(
        name="A refusal suggests the names of another tenant's VMs",
        promise=_TENANTS,
        file="src/forewarn/core/access.py",
        old='        raise unknown("VM", name, self.known_vms(fleet))',
        new='        raise unknown("VM", name, fleet.vms)',
        found_by=("tests/core/test_access.py", "tests/control/api/test_roles.py"),
    ),
    Fault(
        name="A viewer approves events",
        promise="A caller may do what its role permits.",
        file="src/forewarn/core/access.py",
        old="Role.VIEWER: _READS | {Action.READ_HOSTS,",
        new="Role.VIEWER: _READS | {Action.APPROVE, Action.READ_HOSTS,",
        found_by=("tests/core/test_access.py",),
    ),
    Fault(
        name="An expired token is accepted",
        promise="A caller on the port is known by a token that is in force.",
        file="src/forewarn/control/server/authentication.py",
        old="if token is None or not matches or self._is_expired(token):",
        new="if token is None or not matches:",
        found_by=("tests/control/server/test_authentication.py",),
    ),
    Fault(
        name="Wrong tokens are not throttled",
        promise="After several wrong tokens from one address its further attempts are refused without a check.",
        file="src/forewarn/control/server/authentication.py",
        old="        self._refuse_while_waiting(key)\n",
        new="",
        found_by=("tests/control/server/test_authentication.py",),
    ),
    Fault(
        name="The hash of a token is shown",
        promise="No webhook secret, token, hash or address with a key in it appears in log, history or changes.",
        file="src/forewarn/wire/facts.py",
        old='        del fields["hash"]\n',
        new="        pass\n",
        found_by=("tests/wire/test_facts.py",),
    ),
    Fault(
        name="The secret of a subscription is shown",
        promise="No webhook secret, token, hash or address with a key in it appears in log, history or changes.",
        file="src/forewarn/wire/facts.py",
        old='record = replace(record, secret="", target=shown_target(record))',
        new="record = replace(record, target=shown_target(record))",
        found_by=("tests/wire/test_facts.py",),
    ),
    Fault(
        name="A reload that fails has changed settings",
        promise="A reload applies every change that needs no restart, or none.",
        file="src/forewarn/reloading.py",
        old="        if settings.fleet:\n            await self._assembly.apply_fleet_file",
        new="        self._assembly.reconfigure(settings)\n"
        "        if settings.fleet:\n            await self._assembly.apply_fleet_file",
        found_by=("tests/test_reloading.py",),
    ),
)
