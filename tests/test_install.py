"""``tools/install``: which Python it takes, and checkouts in awkward places."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[1]
PYTHON = """#!/bin/sh
here=$(dirname "$0")
name=$(cat "$0.name" 2>/dev/null || basename "$(dirname "$here")")
case "$*" in
*base_prefix*) echo "$name" ;;
*"-m venv"*)
    for venv; do :; done
    mkdir -p "$venv/bin"
    cp "$0" "$venv/bin/python"
    echo "$name" >"$venv/bin/python.name"
    ;;
*"pip install"*)
    cat $PIP_CONSTRAINT $PIP_BUILD_CONSTRAINT || exit 1  # split at spaces, as pip does
    cp "$0" "$here/forewarn"
    ;;
esac
"""
"""A Python that installs nothing: it makes an environment that knows its name, and reads what pip would read."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a checkout whose path has spaces, and two Pythons beside it."""
    place = tmp_path / "a check out"
    (place / "tools").mkdir(parents=True)
    for name in ("tools/install", "tools/debian-packages", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, place / name)
    for name in ("first python", "second"):
        program = tmp_path / name / "bin" / "python3"
        program.parent.mkdir(parents=True)
        program.write_text(PYTHON)
        program.chmod(0o755)
    return place


def install(checkout: Path, python: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"]}
    if python:
        environment["PYTHON"] = str(checkout.parent / python / "bin" / "python3")
    command = [str(checkout / "tools" / "install"), "server"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def made_with(checkout: Path) -> str:
    return (checkout / ".venv" / "bin" / "python.name").read_text().strip()


def test_spaces_in_paths_are_no_hindrance(checkout: Path) -> None:
    """Neither in the checkout's path, which pip would split, nor in that of Python."""
    ran = install(checkout, "first python")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("msgspec==") == 2
    assert made_with(checkout) == "first python"


def test_another_python_makes_the_environment_again(checkout: Path) -> None:
    """The one that is named counts; without a name, and with the same one, what is there stays."""
    install(checkout, "first python")

    assert install(checkout).stdout == ""
    assert install(checkout, "first python").stdout == ""
    assert install(checkout, "second").returncode == 0
    assert made_with(checkout) == "second"


def test_a_python_that_cannot_be_used_changes_nothing(checkout: Path) -> None:
    """It is named, and the environment stays."""
    install(checkout, "first python")

    ran = install(checkout, "third")

    assert ran.returncode == 1
    assert f"{checkout.parent}/third/bin/python3 is not one" in ran.stderr
    assert made_with(checkout) == "first python"
