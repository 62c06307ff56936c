"""How a log line reads: a constant message and fields, in both formats, and never a Python repr."""

import ast
import io
import json
import logging
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

import forewarn
from forewarn.logs import HumanFormatter, JsonFormatter, set_up

FIELDS = {
    "event": "8E5B",
    "reason": 'it said "no"\x1b',
    "detail": "out of the balancer",
    "vms": ("web-0", "web-1"),
    "terms": {"name": "web", "policy": {"quorum": 2}},
    "durable": True,
    "nothing": None,
    "empty": "",
}


@pytest.fixture
def record() -> logging.LogRecord:
    """Return a record with fields of every kind."""
    record = logging.LogRecord("forewarn", logging.WARNING, "", 1, "an event waits", (), None)
    record.fields = FIELDS
    return record


def test_fields_are_told_as_key_and_value(record: logging.LogRecord) -> None:
    """Records within are told field by field; others' words stay on the line and do not speak to the terminal."""
    line = HumanFormatter().format(record)

    assert line.split(" ", 1)[1] == (
        'warning: an event waits event=8E5B reason="it said \\"no\\"\\u001b" detail="out of the balancer" '
        'vms=web-0,web-1 terms.name=web terms.policy.quorum=2 durable=true nothing=null empty=""'
    )


def test_json_has_the_same_fields(record: logging.LogRecord) -> None:
    """As values of their own types, beside time, level and message."""
    line = json.loads(JsonFormatter().format(record))

    assert (line["message"], line["level"]) == ("an event waits", "warning")
    assert {key: line[key] for key in FIELDS} == {**FIELDS, "vms": ["web-0", "web-1"]}


@pytest.mark.parametrize("formatter", [HumanFormatter(), JsonFormatter()])
def test_no_line_is_lost_for_what_is_in_it(formatter: logging.Formatter, record: logging.LogRecord) -> None:
    """A file name that is no UTF-8, or a value of another type, is written as text."""
    record.fields = {"file": Path(os.fsdecode(b"/srv/\xff.toml")), "reason": OSError("disk is full")}
    line = formatter.format(record)

    line.encode()
    assert "/srv/\\udcff.toml" in line
    assert "disk is full" in line


SOURCE = Path(forewarn.__file__).parent
LEVELS = ("debug", "info", "warning", "error", "exception", "critical", "log")
CALL = re.compile(rf"\.(?:{'|'.join(LEVELS)})\(")
FROM_A_TABLE = {"said", "_CHANGES[change.kind]", "fact.__struct_config__.tag", "what"}
"""Messages that are chosen among constants elsewhere."""
PROSE = {"client/problem_log.py"}
"""The client library's: a program's own logging shows the message and no fields."""


def logging_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            called = ast.unparse(node.func.value)
            if called.lower().strip("_").endswith(("log", "logger", "logger()", "logging")) or "getLogger(" in called:
                yield node


def is_constant(call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    message, *values = call.args[1:] if call.func.attr == "log" else call.args
    is_text = isinstance(message, ast.Constant) and "%" not in str(message.value)
    return not values and (is_text or ast.unparse(message) in FROM_A_TABLE)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('log.info("a", extra={"fields": fields})', True),
        ('log.info("a %s", b)', False),
        ('log.info("a %(b)s", {"b": b})', False),
        ('log.info(f"a {b}")', False),
        ('log.info("a %s" % b)', False),
        ('log.info("a" + b)', False),
        ('log.info("a {}".format(b))', False),
        ('log.log(level, "a %s", b)', False),
        ("log.info(sentence)", False),
        ('logging.getLogger("a").info("a %s", b)', False),
    ],
)
def test_a_message_with_values_is_recognised(call: str, said: bool) -> None:  # noqa: FBT001
    """Whatever puts them there."""
    assert [is_constant(each) for each in logging_calls(ast.parse(call))] == [said]


def test_every_message_is_constant() -> None:
    """What varies is a field: nothing that the package logs has values in its message."""
    calls = [
        (str(path.relative_to(SOURCE)), call)
        for path in SOURCE.rglob("*.py")
        if CALL.search(text := path.read_text(encoding="utf-8"))
        for call in logging_calls(ast.parse(text))
    ]

    assert len(calls) > 50
    assert [f"{path}:{call.lineno}" for path, call in calls if path not in PROSE and not is_constant(call)] == []


@pytest.mark.parametrize(("form", "is_json"), [("json", True), ("text", False)])
def test_the_log_is_written_as_it_is_set(form: str, *, is_json: bool) -> None:
    """By every logger of the process, from the level on that is set."""
    stream = io.StringIO()
    set_up(stream, "warning", form)
    logging.getLogger("forewarn.test").info("unheard")
    logging.getLogger("forewarn.test").warning("heard")

    assert "unheard" not in stream.getvalue()
    assert "heard" in stream.getvalue()
    assert stream.getvalue().startswith("{") is is_json


def test_a_key_that_is_no_text_is_written_as_one() -> None:
    """Also in a line that has to be escaped."""
    record = logging.LogRecord("forewarn", logging.WARNING, "", 1, "a file", (), None)
    record.fields = {"path": "\udcff", "counts": {1: 2}}

    assert json.loads(JsonFormatter().format(record))["counts"] == {"1": 2}


def test_each_line_has_the_time_of_its_own_second(record: logging.LogRecord) -> None:
    """Although the text of a second is made once; JSON has milliseconds and the offset of the local time."""
    lines = []
    for created in (1_800_000_000.25, 1_800_000_000.999, 1_800_000_001.0):
        record.created = created
        local = datetime.fromtimestamp(created).astimezone()
        lines.append(json.loads(JsonFormatter().format(record))["time"])
        assert lines[-1] == local.isoformat(timespec="milliseconds")
        assert HumanFormatter().format(record).split(" ", 1)[0] == local.strftime("%H:%M:%S")
    assert len(set(lines)) == 3


def test_no_line_looks_for_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would take longer than the line, and no format shows it."""
    monkeypatch.setattr(logging.Logger, "findCaller", lambda *_: pytest.fail("looked for the caller"))
    written = io.StringIO()
    kept, level = logging.getLogger().handlers[:], logging.getLogger().level
    try:
        set_up(written, "info", "human")
        logging.getLogger("forewarn").info("ready")
    finally:
        logging.getLogger().handlers[:] = kept
        logging.getLogger().setLevel(level)
    assert written.getvalue().endswith(" ready\n")
