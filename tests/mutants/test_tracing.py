"""What is learnt of a test by running it once."""

from pathlib import Path

import pytest

from mutants.tracing import Trace, Tracer

SOURCE = "def f(a):\n    if a:\n        return 1\n    return 2\n"
TESTS = "from traced_example import f\n\ndef test_one(): assert f(1) == 1\n\ndef test_other(): assert f(0) == 1\n"


@pytest.mark.end_to_end
def test_the_lines_that_a_test_runs_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is whether it fails."""
    source = tmp_path / "src" / "traced_example.py"
    source.parent.mkdir()
    source.write_text(SOURCE, encoding="utf-8")
    (tmp_path / "test_traced_example.py").write_text(TESTS, encoding="utf-8")
    monkeypatch.syspath_prepend(source.parent)
    tracer = Tracer(source.parent)
    pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)], plugins=[tracer])

    one, other = tracer.traces.values()
    assert [line for line in range(6) if one.has_run(str(source), range(line, line + 1))] == [1, 2, 3]
    assert [line for line in range(6) if other.has_run(str(source), range(line, line + 1))] == [1, 2, 4]
    assert [one.has_failed, other.has_failed] == [False, True]


def test_one_line_of_several_is_enough() -> None:
    """A statement has been run where any of its lines has."""
    trace = Trace(lines={"a.py": 1 << 4})

    assert trace.has_run("a.py", range(3, 5))
    assert not trace.has_run("a.py", range(5, 9))
    assert not trace.has_run("b.py", range(3, 5))
