"""The wheel as pip installs it, without any extra: the agent works, and the service says what it needs."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[1]
REMEDY = "pip install 'forewarn[server]'"


@pytest.fixture(scope="module")
def forewarn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, install it into a new environment with what it always needs, and return its command."""
    place = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, place], cwd=ROOT, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    (wheel,) = place.glob("*.whl")
    python = str(place / "venv" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-qq", "--no-index"]
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    # From this environment and not by pip: a test fetches nothing.
    library = Path(sysconfig.get_path("purelib", vars={"base": str(place / "venv")}))
    for needed in sorted(closure("forewarn") - {"forewarn"}):
        copy(distribution(needed), library)
    return place / "venv" / "bin" / "forewarn"


def closure(name: str) -> set[str]:
    """Return a package and all that it always needs, by name."""
    found = {name}
    for each in distribution(name).requires or []:
        requirement, _, condition = each.partition(";")
        if not condition:
            found |= closure(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
    return found


def copy(package: Distribution, library: Path) -> None:
    for file in package.files or ():
        if ".." not in file.parts:
            (library / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), library / file)


def run(command: Path, directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("FOREWARN_", "PYTHON"))}
    return subprocess.run(
        [command, *words], cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("words", [["serve"], ["demo"], ["serve", "--data", "elsewhere"]])
def test_the_service_says_what_to_install(forewarn: Path, tmp_path: Path, words: list[str]) -> None:
    """In one sentence, before it makes its directory."""
    ran = run(forewarn, tmp_path, *words)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert REMEDY in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_notices_it(forewarn: Path, tmp_path: Path) -> None:
    """It is wrong, and the rest is looked at all the same."""
    ran = run(forewarn, tmp_path, "doctor")

    assert ran.returncode == 1
    (line,) = (each for each in ran.stdout.splitlines() if "packages" in each)
    assert line.startswith("wrong")
    assert REMEDY in " ".join(ran.stdout.split())
    assert "clock" in ran.stdout


def test_what_belongs_into_a_vm_works(forewarn: Path, tmp_path: Path) -> None:
    """The agent plays an event, which takes the emulated service as well."""
    (tmp_path / "agent.toml").write_text('[[rules]]\nname = "all"\nhandlers = []\n')
    ran = run(forewarn, tmp_path, "agent", "test", "reboot", "--config", "agent.toml")

    assert (ran.returncode, "approval sent" in ran.stdout) == (0, True), ran.stdout + ran.stderr
