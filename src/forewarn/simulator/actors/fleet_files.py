"""The fleet file of a simulation: written from the plan, and edited between starts of the service."""

from pathlib import Path

from msgspec.structs import replace

from forewarn.simulator.plan import Plan, PlannedGroup, PlannedVm

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
