"""The service configures the log, once; nothing that is asked of the API changes that."""

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn import logs
from tests import harness as harness_module
from tests.control.api.document import DOCUMENT
from tests.harness import open_harness

ENDLESS = {"/v1/changes"}
REQUESTS = [
    (method.upper(), re.sub(r"{\w+}", "x", path))
    for path, item in {
        **DOCUMENT["paths"],
        "/": {"get": {}},
        "/openapi.json": {"get": {}},
        "/nothing": {"get": {}},
    }.items()
    for method in (*item, "options", "put")
    if path not in ENDLESS and method != "parameters"
]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Log as ``forewarn serve --log json`` does; afterwards as before."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.set_up(stream, "debug", "json")
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def configuration() -> dict[str, object]:
    """Return how every logger of this process is configured."""
    loggers = {"": logging.getLogger(), **logging.Logger.manager.loggerDict}
    return {
        name: (each.level, each.handlers[:], each.propagate, each.disabled)
        for name, each in loggers.items()
        if isinstance(each, logging.Logger)
    }


@pytest.mark.end_to_end
def test_every_line_of_the_log_is_ours_whatever_was_asked(
    tmp_path: Path, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every route, with and without a token and with a wrong one, on an application that has answered nothing yet."""
    monkeypatch.setattr(harness_module, "_SPARE", [])
    with open_harness(tmp_path):  # uvicorn sets the level of its own logger
        before = configuration()
    monkeypatch.setattr(harness_module, "_SPARE", [])
    with open_harness(tmp_path) as harness:
        for shown in (None, "", "fw_wrong", harness.token("ops")):
            for method, path in REQUESTS:
                harness.ask(method, path, token=shown)
        logging.getLogger("forewarn.facts").info("still here")
    after = configuration()

    assert {name: after[name] for name in before} == before
    assert not [name for name in after.keys() - before.keys() if logging.getLogger(name).handlers]
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    assert "still here" in [line["message"] for line in lines]
