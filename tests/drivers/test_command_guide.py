"""The guide to the command driver: its program works as printed, its tables are complete."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from forewarn.child_process import KEPT
from forewarn.clocks import ManualClock
from forewarn.core.model import EventType
from forewarn.drivers.command import OUTCOME_TIMEOUT, CommandDriver, CommandDriverSettings
from forewarn.drivers.run_record import KEPT_FOR
from forewarn.node.driver import Driver, ImpactDone, ImpactFailed
from tests.drivers.impacts import NOW, carried_out, impact

pytestmark = pytest.mark.end_to_end

GUIDE = (Path(__file__).parents[2] / "docs/how-to/drive-machines-with-a-command.md").read_text()

# Stands where virsh would, and notes down how it was called.
VIRSH = """\
#!/bin/sh
echo "$*" >> "$(dirname "$0")/called"
case "$*" in *"${BROKEN:-nothing}"*) echo "error: $BROKEN is broken" >&2; exit 1 ;; esac
"""


def printed(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, script in (("forewarn-virsh", printed("sh")), ("virsh", VIRSH)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def driver(place: Path, **environment: str) -> Driver:
    table = tomllib.loads(printed("toml"))["drivers"]["command"]
    table["program"] = str(place / "forewarn-virsh")
    table["environment"] |= environment
    return CommandDriver.from_settings(table, ManualClock(NOW), 1.0, place / "records")


def called(place: Path) -> list[str]:
    return (place / "called").read_text().replace("--quiet --connect qemu+ssh://root@h1/system ", "").splitlines()


@pytest.mark.parametrize(
    ("type", "calls"),
    [
        (EventType.FREEZE, ["suspend a", "suspend b", "resume a", "resume b"]),
        (EventType.REBOOT, ["reboot a", "reboot b"]),
        (EventType.PREEMPT, ["shutdown a", "shutdown b"]),
        (EventType.TERMINATE, ["destroy a", "undefine a --nvram", "destroy b", "undefine b --nvram"]),
    ],
)
def test_the_program_does_what_was_announced(place: Path, type: EventType, calls: list[str]) -> None:
    """Each type of event becomes the right calls, for all VMs."""
    assert carried_out(driver(place), impact(type, vms=("a", "b"), duration=0)) == ImpactDone()
    assert called(place) == calls


def test_the_program_names_the_new_hosts(place: Path) -> None:
    """After a redeploy Forewarn knows where the VMs stand."""
    done = carried_out(driver(place), impact(EventType.REDEPLOY, vms=("a", "b")))

    assert done == ImpactDone({"a": "h9", "b": "h9"})
    assert called(place)[0] == "migrate --live --persistent --undefinesource a qemu+ssh://root@h9/system"


def test_the_program_fails_with_the_reason(place: Path) -> None:
    """What virsh complains of is the reason of the failure."""
    failed = carried_out(driver(place, BROKEN="reboot b"), impact(vms=("a", "b")))

    assert failed == ImpactFailed("exit code 1: error: reboot b is broken")


def test_no_vm_stays_paused(place: Path) -> None:
    """A freeze that fails half-way resumes every VM."""
    failed = carried_out(driver(place, BROKEN="suspend b"), impact(EventType.FREEZE, vms=("a", "b"), duration=0))

    assert isinstance(failed, ImpactFailed)
    assert called(place)[-2:] == ["resume a", "resume b"]


def test_the_guide_names_every_setting_with_its_default() -> None:
    """The table of settings is the record of settings."""
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", GUIDE, re.MULTILINE))
    defaults = {
        field.name: "required"
        if field.required
        else {"{}": "empty", "False": "false", "": "empty"}.get(str(field.default)) or f"{field.default:g}"
        if field.default is not msgspec.NODEFAULT
        else "empty"
        for field in msgspec.structs.fields(CommandDriverSettings)
    }

    assert rows == defaults


def test_the_guide_names_every_variable(place: Path) -> None:
    """The table of variables is what the program finds."""
    (place / "forewarn-virsh").write_text("#!/bin/sh\nenv | grep -o '^FOREWARN_[A-Z_]*' | sort > \"$0.told\"\n")
    carried_out(driver(place), impact())

    assert (place / "forewarn-virsh.told").read_text().split() == sorted(
        re.findall(r"^\| `(FOREWARN_[A-Z_]+)`", GUIDE, re.MULTILINE)
    )


def test_the_guide_s_figures_are_the_code_s() -> None:
    """How much counts, how long records are kept, how long a question may take."""
    assert f"The first {KEPT // 1024} KiB of stdout" in GUIDE
    assert f"kept for {KEPT_FOR.days} days" in GUIDE
    assert f"within {OUTCOME_TIMEOUT:g} seconds" in GUIDE
