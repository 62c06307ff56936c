"""Which changes of a module are made."""

import pytest

from mutants.mutations import mutations_of

FILE = "src/forewarn/example.py"


def changes(source: str) -> set[tuple[str, str]]:
    return {(each.before, each.after) for each in mutations_of(FILE, source)}


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("x = a < b", "x = a < b", "x = a <= b"),
        ("x = a in b", "x = a in b", "x = a not in b"),
        ("x = a and b", "x = a and b", "x = a or b"),
        ("x = a and b", "x = a and b", "x = b"),
        ("x = not a", "x = not a", "x = a"),
        ("if a: b = c", "if a:", "if not a:"),
        ("x = 3", "x = 3", "x = 4"),
        ("x = True", "x = True", "x = False"),
        ("x = a + b", "x = a + b", "x = a - b"),
        ("x = min(a, b)", "x = min(a, b)", "x = max(a, b)"),
        ("x = (a, b)", "x = (a, b)", "x = (b,)"),
        ("x = {a: b}", "x = {a: b}", "x = {}"),
        ("f(a, b=c)", "f(a, b=c)", "f(a)"),
        ("f(a)", "f(a)", "pass"),
        ("a.b = c", "a.b = c", "pass"),
        ("x = [a for a in b if a]", "x = [a for a in b if a]", "x = [a for a in b]"),
        ("for a in b: break", "break", "continue"),
        ("def f() -> bool: return a", "return a", "return True"),
        ("def f(): return a", "return a", "return None"),
        ("match a:\n case 1 | 2: b()", "case 1 | 2:", "case 2:"),
        ("@cache(size=1)\ndef f(a): pass", "cache(size=1)", "cache(size=2)"),
        ("match a:\n case b if c: d()", "case b if c:", "case b if True:"),
        ("match a:\n case b if c: d()", "case b if c:", "case b if False:"),
    ],
)
def test_what_is_changed(source: str, before: str, after: str) -> None:
    """Each kind of expression and statement has its mutations."""
    assert (before, after) in changes(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A text."""',
        "def f(a: int | None) -> dict[str, int]: pass",
        "log.info('said', extra={'a': 1})",
        "__all__ = ['a', 'b']",
        "if TYPE_CHECKING: x = 1",
        "match a:\n case _:\n  assert_never(a)",
        "x = f'{a + 1}'",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    """Annotations, messages and log lines hold no rule."""
    assert changes(source) == set()


def test_every_mutation_compiles() -> None:
    """The changed module runs with the change, and the others are not part of it."""
    source = "def f(a):\n    yield a\n    if a > 1 and a:\n        yield 2\n"
    results = set()
    for mutation in mutations_of(FILE, source):
        module: dict[str, object] = {}
        exec(mutation.compile("example.py"), module)  # noqa: S102 - it is the source above
        assert callable(module["f"])
        results.add((mutation.after, tuple(module["f"](2))))

    assert ("pass", (2,)) in results
    assert ("if a > 1 or a:", (2, 2)) in results
    assert ("yield 3", (2, 3)) in results


def test_a_mutation_is_known_by_its_text() -> None:
    """It keeps its key when lines above it come and go."""
    (one, *_), (other, *_) = (mutations_of(FILE, f"{above}def f(): g(a)") for above in ("", "import a\n\n\n"))

    assert one.key == other.key == (FILE, "f", "g(a)", "pass")
    assert one.lines != other.lines


def test_code_that_runs_during_import_belongs_to_no_function() -> None:
    """Defaults and class bodies are evaluated before any function is called."""
    source = "class C:\n    x = 1\n    def f(self, a=2):\n        return g(lambda: 3)"
    functions = {each.after: each.function for each in mutations_of(FILE, source)}

    assert functions["x = 2"] == ""
    assert functions["3"] == ""
    assert functions["return g(lambda: 4)"] == "C.f"


def test_a_function_that_the_module_itself_calls_is_told_from_others() -> None:
    """What it returned is there before its code can be replaced."""
    source = "def f(a):\n    return 1\n\ndef g():\n    return f(2)\n\nTABLE = {1: [f(1)]}"
    called = {each.function: each.is_called_during_import for each in mutations_of(FILE, source) if each.function}

    assert called == {"f": True, "g": False}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = f(\n    1,\n)", range(1, 4)),
        ("if (\n    a > b\n):\n    c = d", range(1, 4)),
        ("if a > b: c = d", range(1, 2)),
        ("match a:\n    case 1 | 2:\n        b = c", range(2, 3)),
    ],
)
def test_a_mutation_knows_the_lines_that_a_test_must_run(source: str, lines: range) -> None:
    """Those of the statement, without the body of a compound one."""
    assert {each.lines for each in mutations_of(FILE, source)} == {lines}
