"""The catalogue of planted faults fits the checkout."""

from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType

import pytest

from planted.catalogue import FAULTS
from planted.fault import SIMULATOR, Fault

ROOT = Path(__file__).parents[2]

every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


def compiled(source: str) -> object:
    """Return what a text does, wherever its lines stand."""
    return contents(compile(source, "", "exec"))


def contents(code: CodeType) -> object:
    constants = (contents(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    return code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_exceptiontable, *constants


@cache
def compiled_file(name: str) -> object:
    """Compile a file once for all its faults."""
    return compiled((ROOT / name).read_text(encoding="utf-8"))


@every_fault
def test_a_fault_fits_its_file(fault: Fault) -> None:
    """Its old text occurs exactly once, and the new text is valid Python that differs."""
    source = (ROOT / fault.file).read_text(encoding="utf-8")

    assert source.count(fault.old) == 1, "bring planted/ up to date: the product's text has changed"
    assert compiled(source.replace(fault.old, fault.new)) != compiled_file(fault.file)


@every_fault
def test_what_finds_a_fault_exists(fault: Fault) -> None:
    """It names test files of this checkout, or the simulator."""
    assert fault.found_by
    assert [each for each in fault.found_by if each != SIMULATOR and not (ROOT / each).is_file()] == []


def test_names_are_unique() -> None:
    """One fault can be chosen by its name."""
    assert [name for name, count in Counter(fault.name for fault in FAULTS).items() if count > 1] == []


def test_there_are_many_faults() -> None:
    """They cover every part that makes promises."""
    assert len(FAULTS) >= 40
    assert {Path(fault.file).parts[2] for fault in FAULTS} >= {
        "agent",
        "client",
        "control",
        "core",
        "drivers",
        "journal",
        "metadata",
        "node",
        "wire",
    }
