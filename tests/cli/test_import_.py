"""A fleet from what libvirt knows, with libvirt's own test hypervisor."""

import os
import threading
import tomllib
from pathlib import Path
from uuid import uuid4

import libvirt
import pytest

from forewarn.cli.import_ import show
from forewarn.cli.importing.libvirt_import import LibvirtImport
from forewarn.cli.importing.merging import ImportPlan
from forewarn.cli.importing.sources import LibvirtSources
from forewarn.cli.importing.targets import FileTarget, ServiceTarget
from forewarn.control.client import ControlClient
from forewarn.core.commands import MoveVm
from forewarn.core.errors import BadInput
from forewarn.core.model import NODE, Host
from forewarn.fleetfile.parser import DesiredFleet
from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness

URI = "test:///default"
TEST = "6695eb01-f6a4-8304-79aa-97f2502e193f"
"""The machine that libvirt's test hypervisor always has."""


def test_the_plan_comes_before_anything_is_written(forewarn: Forewarn, tmp_path: Path) -> None:
    """Nobody is asked where nobody is at a terminal; --yes writes."""
    shown = forewarn("import", "libvirt", f"h1={URI}", "--out", "fleet.toml")

    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == f"+ host h1  {URI}"
    assert lines[1].startswith("+ vm test  on h1, 192.168.")
    assert lines[-1] == "nothing was written; add --yes to write it"
    assert not (tmp_path / "fleet.toml").exists()
    assert forewarn("import", "libvirt", f"h1={URI}", "--out", "fleet.toml", "--yes").out.endswith(
        "fleet.toml has it now\n"
    )
    (vm,) = tomllib.loads((tmp_path / "fleet.toml").read_text())["vm"]
    assert (vm["name"], vm["host"], vm["vm_id"], vm["mac_address"]) == ("test", "h1", TEST, "aa:bb:cc:dd:ee:ff")
    assert forewarn("import", "libvirt", f"h1={URI}", "--out", "fleet.toml").out == (
        "fleet.toml has all of it already\n"
    )


def test_remarks_are_no_part_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """They go to the error output, as does what is refused."""
    show(ImportPlan(DesiredFleet(), remarks=("a is left out",), refused=("b is on two hosts",)), "fleet.toml")
    printed = capsys.readouterr()

    assert printed.out == "fleet.toml has all of it already\n"
    assert printed.err == "! a is left out\n! b is on two hosts\n"


def test_a_service_takes_it_over(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Beside what its fleet has already; as JSON for programs."""
    before = set(harness.node.replica.fleet.vms)
    result = forewarn("import", "libvirt", f"h1={URI}", "--yes", "--json").json

    assert [(each["what"], each["kind"], each["name"]) for each in result["changes"]] == [("add", "vm", "test")]
    assert result["written"] is True
    assert set(harness.node.replica.fleet.vms) == before | {"test"}
    assert harness.node.replica.fleet.vms["test"].instance.vm_id == TEST


def test_a_vm_that_is_back_is_recorded_there(harness: ApiHarness, forewarn: Forewarn) -> None:
    """It had been moved to h2, and libvirt has it on h1 again."""
    forewarn("import", "libvirt", f"h1={URI}", "--yes")
    harness.do(MoveVm(id=uuid4().hex, by=NODE, vm="test", host="h2", record=True))
    assert harness.node.replica.fleet.vms["test"].standing_on == "h2"
    shown = forewarn("import", "libvirt", f"h1={URI}", "--yes")

    assert shown.out.splitlines()[0] == "~ vm test  host h2 → h1"
    assert harness.node.replica.fleet.vms["test"].standing_on == "h1"


def test_an_import_of_several_requests_takes_a_key(harness: ApiHarness) -> None:
    """The key is that of the change; to record a host twice does no harm."""

    def connect() -> ControlClient:
        client = ControlClient.local(harness.directory)
        client.key = "monday"
        return client

    target = ServiceTarget(connect)
    fleet = target.read()
    hosts = {**fleet.hosts, "h5": Host("h5")}
    target.write(DesiredFleet(hosts, fleet.groups, fleet.vms), {"web-0": "h2", "web-1": "h1"})

    assert "h5" in harness.node.replica.fleet.hosts
    assert [harness.node.replica.fleet.vms[name].standing_on for name in ("web-0", "web-1")] == ["h2", "h1"]


def test_a_doubt_is_refused(forewarn: Forewarn, tmp_path: Path) -> None:
    """The rest is written all the same, and the exit code tells."""
    (tmp_path / "node.xml").write_text(TWIN)
    hosts = (f"h1={URI}", f"h2=test://{tmp_path}/node.xml")
    ran = forewarn("import", "libvirt", *hosts, "--out", "fleet.toml", "--yes")

    assert ran.code == 1
    assert "test runs on h1 and h2 at once; stop it with 'virsh destroy' where it must not run" in ran.err
    assert [vm["name"] for vm in tomllib.loads((tmp_path / "fleet.toml").read_text())["vm"]] == ["other"]


def test_what_is_being_deleted_is_not_added_again(tmp_path: Path) -> None:
    """The fleet has forgotten it before libvirt has; when it is defined anew later, it comes back."""
    target = FileTarget(tmp_path / "fleet.toml")
    with LibvirtSources([f"h1={URI}"]) as sources:
        connection = libvirt.open(URI)
        domain = connection.defineXML(MACHINE.format(name="deleted"))
        work = LibvirtImport(sources, target)
        work.write(work.plan())
        work.plan()
        fleet = target.read()
        kept = {name: vm for name, vm in fleet.vms.items() if name != "deleted"}
        target.write(DesiredFleet(fleet.hosts, {name: fleet.groups[name] for name in kept}, kept))
        during = work.plan()
        domain.undefine()
        work.plan()
        again = connection.defineXML(MACHINE.format(name="deleted"))
        after = work.plan()
        again.undefine()
        connection.close()

    assert during.changes == ()
    assert [change.name for change in after.changes] == ["deleted"]


def test_what_is_gone_goes_where_asked(forewarn: Forewarn, tmp_path: Path) -> None:
    """Only with --remove, and only what came from libvirt."""
    (tmp_path / "fleet.toml").write_text(
        '[[host]]\nname = "h1"\n'
        '[[vm]]\nname = "old"\nhost = "h1"\nvm_id = "u-1"\n'
        '[[vm]]\nname = "hand"\nhost = "h1"\n'
    )
    kept = forewarn("import", "libvirt", f"h1={URI}", "--out", "fleet.toml")
    gone = forewarn("import", "libvirt", f"h1={URI}", "--out", "fleet.toml", "--remove")

    assert "- vm" not in kept.out
    assert "- vm old  libvirt on h1 has it no more\n" in gone.out
    assert "hand" not in gone.out


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 2, "missing argument"),
        (("h1",), 2, "'h1' is not a valid URI; write it like qemu:///system or h1=qemu+ssh://root@h1/system"),
        (("qemu+unix:///system?socket=/no/such",), 3, "cannot be reached: Failed to connect socket to '/no/such'"),
        (("nonsense:///x",), 3, "cannot be reached"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    forewarn: Forewarn, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    """Wrong usage, and libvirt that is not there."""
    ran = forewarn("import", "libvirt", *arguments, "--out", "fleet.toml")

    assert ran.code == code
    assert sentence in ran.err


def test_two_hosts_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """By the names that the operator gives them."""
    (tmp_path / "node.xml").write_text("<node/>")
    other = f"test://{tmp_path}/node.xml"
    with LibvirtSources([URI, other]) as sources, pytest.raises(BadInput, match="name them apart"):
        sources.read()
    with LibvirtSources([f"h1={URI}", f"h2={other}"]) as sources:
        assert [(each.host, len(each.machines)) for each in sources.read()] == [("h1", 1), ("h2", 0)]


TWIN = f"""\
<node>
  <domain type="test"><name>test</name><uuid>{TEST}</uuid><memory>1024</memory><os><type>hvm</type></os></domain>
  <domain type="test"><name>other</name><memory>1024</memory><os><type>hvm</type></os></domain>
</node>
"""
MACHINE = '<domain type="test"><name>{name}</name><memory>1024</memory><os><type>hvm</type></os></domain>'


def test_a_link_stays_and_what_is_no_file_is_refused(forewarn: Forewarn, tmp_path: Path) -> None:
    """What the link leads to is written; a device or a pipe is not replaced."""
    (tmp_path / "link.toml").symlink_to(tmp_path / "fleet.toml")
    os.mkfifo(tmp_path / "pipe")

    assert forewarn("import", "libvirt", f"h1={URI}", "--out", "link.toml", "--yes").code == 0
    refused = forewarn("import", "libvirt", f"h1={URI}", "--out", "pipe", "--yes")

    assert ((tmp_path / "link.toml").is_symlink(), (tmp_path / "fleet.toml").is_file()) == (True, True)
    assert (refused.code, refused.err) == (2, "forewarn: pipe is not a regular file; name another\n")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.end_to_end
def test_it_stays_in_step(tmp_path: Path) -> None:
    """A machine that is defined while it follows comes in, and goes when it is undefined."""
    plans: list[ImportPlan] = []
    target = FileTarget(tmp_path / "fleet.toml")
    with LibvirtSources([f"h1={URI}"]) as sources:
        work = LibvirtImport(sources, target)
        work.write(work.plan())
        following = threading.Thread(target=work.follow, args=(plans.append, 2), daemon=True)
        following.start()
        connection = libvirt.open(URI)
        domain = connection.defineXML(MACHINE.format(name="followed"))
        wait_for(plans, 1)
        assert "followed" in target.read().vms
        domain.undefine()
        wait_for(plans, 2)
        following.join(60)
        connection.close()

    assert [(change.what, change.name) for plan in plans for change in plan.changes] == [
        ("add", "followed"),
        ("remove", "followed"),
    ]
    assert set(target.read().vms) == {"test"}


def wait_for(plans: list[ImportPlan], times: int) -> None:
    for _ in range(6000):
        if len(plans) >= times:
            return
        threading.Event().wait(0.01)
    pytest.fail("it was not noticed")
