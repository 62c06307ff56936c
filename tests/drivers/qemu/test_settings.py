"""What an operator tells of QEMU machines, and what is said when it is wrong."""

import sys
from pathlib import Path

import pytest

from forewarn.core.errors import BadInput
from forewarn.drivers.qemu import settings
from forewarn.drivers.qemu.monitors import MonitorProblem

QMP = "/run/forewarn/{host}/{vm}.qmp"
PROGRAM = sys.executable


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "qmp"),
        ({"qmp": "/run/web.qmp"}, "with {vm} for its name"),
        ({"qmp": "run/{vm}.qmp"}, "write the whole path"),
        ({"qmp": QMP, "grace": -1}, "grace"),
        ({"qmp": QMP, "records": "records"}, "'records' of driver 'qemu' is 'records'; write the whole path"),
        ({"qmp": QMP, "start": ["/no/such/program", "{vm}"]}, "there is no program /no/such/program"),
        ({"qmp": QMP, "start": ["/usr"]}, "there is no program /usr"),
        ({"qmp": QMP, "receive": [PROGRAM, "{vm}"]}, "has no {incoming}"),
        ({"qmp": QMP, "recieve": []}, "receive"),
    ],
)
def test_what_is_wrong_is_named_with_the_remedy(given: dict[str, object], words: str) -> None:
    """Each mistake is refused before anything is touched."""
    with pytest.raises(BadInput) as refused:
        settings.read(given)

    assert words in str(refused.value)


def test_a_program_that_may_not_be_executed_is_refused(tmp_path: Path) -> None:
    """Better at the start of the service than when a guest waits."""
    program = tmp_path / "start"
    program.touch(mode=0o600)

    with pytest.raises(BadInput, match=r"chmod \+x"):
        settings.read({"qmp": QMP, "start": [str(program)]})


def test_names_stand_where_the_pattern_has_them() -> None:
    """A VM whose name looks like a placeholder is no placeholder."""
    read = settings.read({"qmp": QMP, "start": [PROGRAM, "{vm}@{host}"], "receive": [PROGRAM, "{vm}", "{incoming}"]})

    assert read.path("web-0", "h1") == Path("/run/forewarn/h1/web-0.qmp")
    assert read.command(read.start, "{host}", "h1") == [PROGRAM, "{host}@h1"]
    assert read.command(read.receive, "web-0", "h2") == [PROGRAM, "web-0", "unix:/run/forewarn/web-0.h2.incoming"]


def test_a_vm_without_a_host_is_refused_where_one_is_needed() -> None:
    """The sentence tells where to declare it."""
    with pytest.raises(MonitorProblem, match=r"web-0 has no host, .* declare its host in the fleet file"):
        settings.read({"qmp": QMP}).path("web-0", "")


@pytest.mark.parametrize(
    ("pattern", "path", "vm"),
    [
        (QMP, "/run/forewarn/h1/web-0.qmp", "web-0"),
        (QMP, "/run/forewarn/h1/web-0.pid", ""),
        (QMP, "/run/forewarn/h1/deeper/web-0.qmp", ""),
        ("/run/{vm}/{vm}.qmp", "/run/web-0/web-0.qmp", "web-0"),
        ("/run/{vm}/{vm}.qmp", "/run/web-0/web-1.qmp", ""),
        ("/run/a.b/{vm}", "/run/aXb/web-0", ""),
    ],
)
def test_a_socket_tells_whose_it_is(pattern: str, path: str, vm: str) -> None:
    """What the pattern makes of a name, it finds again."""
    assert settings.read({"qmp": pattern}).vm_at(Path(path)) == vm


def test_all_sockets_are_found_by_one_pattern() -> None:
    """Names are what differs."""
    assert settings.read({"qmp": QMP}).everywhere == "/run/forewarn/*/*.qmp"
