"""A fault is applied to a copy only, and taken back."""

from pathlib import Path

import pytest

from planted.fault import Fault
from planted.runner import planted

FAULT = Fault(
    name="One is two", promise="One is one.", file="module.py", old="ONE = 1", new="ONE = 2", found_by=("x",)
)


def test_a_fault_is_applied_and_taken_back(tmp_path: Path) -> None:
    """The file has the new text meanwhile, and the old one afterwards."""
    file = tmp_path / "module.py"
    file.write_text("ONE = 1\n", encoding="utf-8")

    with planted(FAULT, tmp_path):
        assert file.read_text(encoding="utf-8") == "ONE = 2\n"
    assert file.read_text(encoding="utf-8") == "ONE = 1\n"


@pytest.mark.parametrize("source", ["", "ONE = 1\nONE = 1\n"])
def test_a_fault_that_does_not_fit_is_refused(source: str, tmp_path: Path) -> None:
    """Text that is missing, or occurs twice, would plant nothing or something else."""
    (tmp_path / "module.py").write_text(source, encoding="utf-8")

    with pytest.raises(ValueError, match="One is two"), planted(FAULT, tmp_path):
        pass
