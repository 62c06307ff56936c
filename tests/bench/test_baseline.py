"""The version that is measured beside this one."""

from pathlib import Path

import pytest

from bench import baseline


def test_a_clone_without_the_history_is_told_the_remedy(tmp_path: Path) -> None:
    """The baseline is a commit, which a shallow clone does not have."""
    with pytest.raises(SystemExit, match=r"(?s)0000000 cannot be extracted: .*git fetch --unshallow"):
        baseline.environment(tmp_path, "0" * 40)
