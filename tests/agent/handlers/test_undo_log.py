"""What a handler changed in its own name is known after a crash, or plainly not known."""

from pathlib import Path

import pytest

from forewarn.agent.handlers.undo_log import UndoLog


def test_claims_survive(tmp_path: Path) -> None:
    """What was written last is what another handler of the same directory reads."""
    UndoLog(tmp_path / "a" / "b").write({"web/a": "ready"})
    UndoLog(tmp_path / "a" / "b").write({"web/b": "ready"})

    assert UndoLog(tmp_path / "a" / "b").read() == {"web/b": "ready"}


def test_no_claims_leave_no_trace(tmp_path: Path) -> None:
    """Where nothing was ever claimed, reading and writing nothing make no directory."""
    claims = UndoLog(tmp_path / "kept")
    claims.write({})

    assert claims.read() == {}
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("content", [b'{"web/a": "rea', b'{"web/a": "\xff"}'])
def test_damaged_claims_claim_nothing(tmp_path: Path, content: bytes) -> None:
    """Half a file is told with its path and the remedy, and not taken for an empty one."""
    (tmp_path / "claims.json").write_bytes(content)

    with pytest.raises(OSError, match=r"claims\.json is damaged .*; check the objects it names, then delete it"):
        UndoLog(tmp_path).read()
