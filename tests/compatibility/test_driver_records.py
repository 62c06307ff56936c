"""What the drivers of earlier versions kept of events."""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import forewarn
from forewarn.drivers.progress_store import ProgressFile, ProgressStore
from forewarn.node.driver import Impact
from tests.compatibility import driver_records
from tests.compatibility.comparing import differences, stored

LEDGERS = ("webhook", "qemu", "libvirt")


def kept(recorded: Path, name: str) -> Iterator[tuple[Impact, Any]]:
    for each in stored(recorded / "records.json")[name]:
        yield msgspec.convert(each["impact"], Impact), each["outcome"]


@pytest.mark.parametrize("name", driver_records.DRIVERS)
def test_a_driver_knows_how_an_event_ended(recorded: Path, tmp_path: Path, name: str) -> None:
    """Whatever its record says, the driver of today says the same as the one that wrote it."""
    directory = shutil.copytree(recorded / "drivers" / name, tmp_path / name)
    for impact, outcome in kept(recorded, name):
        if outcome is not None:
            assert differences(outcome, driver_records.outcome(name, directory, impact)) == []


@pytest.mark.parametrize("name", driver_records.DRIVERS)
def test_an_operation_means_what_it_meant(recorded: Path, name: str) -> None:
    """Whether VMs are moved, stay off or are lost already follows from how the operation was spelled then."""
    for each in stored(recorded / "records.json")[name]:
        assert driver_records.kind_of(msgspec.convert(each["impact"], Impact)) == each["kind"]


@pytest.mark.parametrize("name", LEDGERS)
def test_a_record_is_written_again_as_it_was(recorded: Path, tmp_path: Path, name: str) -> None:
    """Impact, steps and end that are read and written have the same bytes; a line that was cut off is dropped."""
    for impact, _ in kept(recorded, name):
        content = (recorded / "drivers" / name / impact.event.id).read_bytes()
        read = ProgressFile(content)
        assert read.begun == impact
        with ProgressStore(tmp_path / name, driver_records.clock_of(impact)).held(impact.event.id) as page:
            page.begin(read.begun)
            for step in read.steps:
                page.note(step.name, step.vm, **step.seen)
            if read.ending:
                page.end(read.ending)

        assert content.removesuffix(b'\n{"line":"ended","resu') == (tmp_path / name / impact.event.id).read_bytes()


@pytest.mark.parametrize("name", LEDGERS)
def test_every_step_is_still_known(recorded: Path, name: str) -> None:
    """A driver that goes on with an event looks for the steps that the earlier one noted, by their names."""
    package = Path(forewarn.__file__).parent / "drivers"
    sources = [*(package / name).glob("*.py"), *package.glob(f"{name}*.py")]
    words = {
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    steps = {
        word
        for impact, _ in kept(recorded, name)
        for step in ProgressFile((recorded / "drivers" / name / impact.event.id).read_bytes()).steps
        for word in (step.name.partition("/")[0], *step.seen)
    }

    assert steps
    assert steps - words - arguments(sources) == set()


def arguments(sources: list[Path]) -> set[str]:
    """Return the names by which values are noted with a step: those of keyword arguments, and devices of machines."""
    return {"vda"} | {
        keyword.arg
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg
    }
