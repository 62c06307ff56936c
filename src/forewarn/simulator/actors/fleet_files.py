"""The fleet file of a simulation: written from the plan, edited while the service runs, and applied by operators."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec.structs import replace

from forewarn.config import toml
from forewarn.control.bodies import DeclarationBody, DeclarationPage
from forewarn.core.errors import ForewarnError
from forewarn.fleetfile.diff import CurrentFleet, diff_fleet
from forewarn.fleetfile.parser import parse_fleet
from forewarn.simulator.plan import Plan, PlannedGroup, PlannedVm

_NAME = "fleet.toml"
_SPOILT = '[[vm]]\nname = "x"\ngroup = \n'


class FleetFile:
    """A declaration that an editor changes."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self._hosts = list(plan.hosts)
        self._groups = {group.name: group for group in plan.groups}
        self._vms = {vm.name: vm for vm in plan.vms}
        self._is_spoilt = False
        self._write()

    def edit(self, edit: str, subject: str, value: str) -> None:
        """Change the file; an edit that makes no sense any more changes nothing."""
        vm = self._vms.get(subject)
        match edit:
            case "add-vm" if vm is None:
                group, host, number = value.split("/")
                known = self._groups.setdefault(group, PlannedGroup(group, "availability-set"))
                domain = int(number) % 3
                self._vms[subject] = PlannedVm(subject, known.name, host, domain, domain % 2, f"10.1.0.{number}")
            case "remove-vm" if vm:
                del self._vms[subject]
            case "rehost-vm" if vm and value in self._hosts:
                self._vms[subject] = replace(vm, host=value)
            case "regroup-vm" if vm and value in self._groups:
                self._vms[subject] = replace(vm, group=value)
            case "set-spot" if vm:
                self._vms[subject] = replace(vm, spot=value == "true")
            case "add-host" if subject not in self._hosts:
                self._hosts.append(subject)
            case "remove-host" if subject in self._hosts and len(self._hosts) > 1:
                self._hosts.remove(subject)
                stays = self._hosts[0]
                self._vms = {
                    name: replace(vm, host=stays) if vm.host == subject else vm for name, vm in self._vms.items()
                }
            case "spoil":
                self._is_spoilt = True
            case "mend":
                self._is_spoilt = False
        self._write()

    def _write(self) -> None:
        lines = [_SPOILT] if self._is_spoilt else []
        lines += [f'[[host]]\nname = "{host}"' for host in self._hosts]
        used = {vm.group for vm in self._vms.values()}
        lines += [
            f'[[group]]\nname = "{group.name}"\nkind = "{group.kind}"'
            for group in self._groups.values()
            if group.name in used
        ]
        for vm in self._vms.values():
            lines.append(
                f'[[vm]]\nname = "{vm.name}"\ngroup = "{vm.group}"\nhost = "{vm.host}"\n'
                f"update_domain = {vm.update_domain}\nfault_domain = {vm.fault_domain}\n"
                f'address = "{vm.address}"' + ("\nspot = true" if vm.spot else "")
            )
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def request_to_apply(content: bytes, how: str, pages: Sequence[DeclarationPage]) -> str:
    """Return the body with which ``fleet apply`` sends a file; empty where it refuses the file itself.

    ``pages``: the declaration last applied, as the service tells it.
    """
    try:
        desired = parse_fleet(toml.decode(content, _NAME))
    except ForewarnError:
        return ""
    declared = CurrentFleet(
        hosts={host.name: host for page in pages for host in page.hosts},
        groups={terms.name: terms for page in pages for terms in page.groups},
        vms={vm.name: vm for page in pages for vm in page.vms},
    )
    seen = pages[0].revision - (how == "stale")
    body = DeclarationBody(
        seen=seen,
        digest=sha256(content).hexdigest(),
        source=_NAME,
        exact="exact" in how,
        cancel_events="cancel-events" in how,
        yes="yes" in how,
        **msgspec.structs.asdict(diff_fleet(desired, declared)),
    )
    return msgspec.json.encode(body).decode()
