"""The configuration that nginx is measured with."""

import re
from pathlib import Path

from bench.nginx import EMPTY, render_config
from forewarn.wire.versions import API_VERSIONS

BODY = b'{"DocumentIncarnation":1,"Events":[]}'


def render(stretch: int = 0) -> str:
    return render_config(Path("prefix"), 8080, {"127.0.0.1": '"web-0-1"', "127.0.0.2": '"web-1-1"'}, BODY, stretch)


def test_nginx_has_one_worker_and_no_log() -> None:
    """It is measured at its best."""
    config = render()

    assert "worker_processes 1;" in config
    assert "access_log off;" in config


def test_nginx_knows_every_caller_by_its_address() -> None:
    """Each has the ETag of its own document."""
    config = render()

    assert "127.0.0.1 '\"web-0-1\"';" in config
    assert "127.0.0.2 '\"web-1-1\"';" in config


def test_nginx_knows_every_version() -> None:
    """The same seven as the service."""
    assert re.findall(r"api-version=(\S+) 1;", render()) == [version.name for version in API_VERSIONS]


def test_nginx_answers_with_the_same_body() -> None:
    """The empty document, as the service gave it."""
    assert f"return 200 '{BODY.decode()}';" in render()


def test_nginx_answers_approvals_without_looking() -> None:
    """On a path of its own, so that GETs are measured as before."""
    assert f"location = {EMPTY} {{ return 200; }}" in render()


def test_the_content_type_makes_up_for_other_lengths() -> None:
    """It is longer or shorter by exactly as many bytes as asked for."""
    found = [re.search(r'default_type "([^"]*)"', render(stretch)) for stretch in (-21, 0, 5)]

    assert [len(each[1]) for each in found if each] == [10, 31, 36]


def test_no_placeholder_is_left() -> None:
    """What nginx itself has variables for keeps its single dollar sign."""
    assert "$$" not in render()
    assert set(re.findall(r"\$(\w+)", render())) == {
        "remote_addr", "etag", "http_metadata", "is_metadata", "args", "is_version",
        "http_x_forwarded_for", "http_if_none_match",
    }  # fmt: skip
