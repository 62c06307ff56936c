"""TOML that knows its lines."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.config import toml
from forewarn.core.errors import BadInput

FILE = """\
# a comment
top = 1
text = \"\"\"
top = "not a key"
\"\"\"

[notice]
freeze = "15m"

[[vm]]
name = "web-0"

[[vm]]
name = "web-1"
tags = { a = "b" }
[vm.facts]
size.small = true

[drivers.command]
"program" = "x"
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("notice",), 7),
        (("notice", "freeze"), 8),
        (("vm", 0), 10),
        (("vm", 0, "name"), 11),
        (("vm", 1, "name"), 14),
        (("vm", 1, "tags", "a"), 15),
        (("vm", 1, "facts", "size", "small"), 17),
        (("vm", 1, "absent"), 13),
        (("drivers", "command", "program"), 20),
    ],
)
def test_every_key_has_its_line(path: tuple[str | int, ...], line: int) -> None:
    """A key that is not written is placed at its table."""
    assert toml.parse(FILE, "f.toml").place(*path) == f"f.toml, line {line}"


def test_what_stands_nowhere_is_placed_in_the_file() -> None:
    """No line is better than a wrong one."""
    assert toml.parse(FILE, "f.toml").place("absent") == "f.toml"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a = 1\nb = \n", "line 2: "),
        (b"a = 1\na = 2\n", "line 2: "),
        (b"a = 1\nb = '\xff'\n", "line 2: this is not UTF-8"),
        (b'a = "open', "line 1: "),
        (b"a = " + b"[" * 5_000, "nested too deeply"),
        (b"a = 1\r", "line 1: "),
    ],
)
def test_what_is_no_toml_is_named_by_its_line(tmp_path: Path, content: bytes, said: str) -> None:
    """One sentence, whatever is wrong."""
    path = tmp_path / "f.toml"
    path.write_bytes(content)

    with pytest.raises(BadInput, match=said):
        toml.read(path)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    """The path and the reason."""
    with pytest.raises(BadInput, match=r"absent\.toml cannot be read: No such file"):
        toml.read(tmp_path / "absent.toml")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """Some editors write one."""
    path = tmp_path / "f.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")

    assert toml.read(path).tables == {"a": 1}


names = st.sampled_from(["a", "b", "vm", "host", "x-y", "1"])
values = st.sampled_from(
    ['"web-0"', '""', '"ü # no comment"', '"\\t"', "0", "-12", "007", "1_0", "true", "false", "1.5", "[1]", "", '"']
)
spaces = st.sampled_from(["", " ", "\t"])
ends = st.sampled_from(["\n", "\n", "\n", "\r\n", " # why\n", "\r", "", "\x0b\n", " #\x7f\n", "\f\n", "\u2028\n"])
lines = st.one_of(
    st.builds(lambda name, space: f"{space}[[{name}]]", names, spaces),
    st.builds(lambda name, space, value: f"{name}{space}={space}{value}", names, spaces, values),
    st.sampled_from(["", "# comment", "[a]", "[a.b]", "a.b = 1", "[[a.b]]", "[[ a ]]"]),
)
files = st.lists(st.builds(lambda line, end: line + end, lines, ends), max_size=8).map("".join)


@given(files)
def test_plain_files_read_as_the_library_reads_them(text: str) -> None:
    """The fast way gives the same tables, or the same refusal, as Python's own reader."""
    expected: dict[str, Any] | None
    try:
        expected = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        expected = None

    try:
        found: dict[str, Any] | None = toml.parse(text, "f.toml").tables
    except BadInput:
        found = None

    assert found == expected


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    """No other exception, no second line."""
    said = ""
    try:
        toml.parse(text, "f.toml")
    except BadInput as error:
        said = str(error)

    assert "\n" not in said
