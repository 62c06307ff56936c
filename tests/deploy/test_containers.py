"""The container files of the service and of the agent: pinned, without root where root is not needed, and true."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from time import monotonic, sleep

import pytest

from forewarn.config.settings import KEYS, load
from tests.ports import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICE = DEPLOY / "service" / "Dockerfile"
FILES = [SERVICE, DEPLOY / "agent" / "kubernetes" / "Dockerfile"]
DAEMON_SET = DEPLOY / "agent" / "kubernetes" / "daemonset.yaml"


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return each instruction with its words, continued lines joined, comments left out."""
    text = re.sub(r"^#.*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = filter(None, map(str.strip, text.replace("\\\n", " ").splitlines()))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def said(word: str) -> str:
    """Return what the service's file says once."""
    (rest,) = (rest for each, rest in instructions(SERVICE) if each == word)
    return rest


def environment() -> dict[str, str]:
    """Return the variables that the service's file sets."""
    return dict(pair.split("=", 1) for pair in shlex.split(said("ENV")))


def health_check() -> list[str]:
    """Return the command that tells whether the service is well, for the Python of these tests."""
    command: list[str] = json.loads(said("HEALTHCHECK").partition(" CMD ")[2])
    assert command[0] == "python"
    return [sys.executable, *command[1:]]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_the_base_is_one_exact_version(file: Path) -> None:
    """Of Python, and of the Debian below it; one that Forewarn supports, the same in all files."""
    bases = [rest for word, rest in instructions(file) if word == "FROM"]

    assert bases == ["python:3.13.7-slim-bookworm"]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_instruction_is_one(file: Path) -> None:
    """Nothing is cut off or misspelt."""
    known = {
        *("FROM", "ARG", "RUN", "USER", "WORKDIR", "VOLUME", "ENV", "EXPOSE"),
        *("HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"),
    }

    assert {word for word, _ in instructions(file)} <= known
    assert instructions(file)[-1][0] in {"CMD", "ENTRYPOINT"}


def test_the_service_runs_as_a_user_of_its_own() -> None:
    """Named in numbers, made beforehand, and owner of its data and of nothing else."""
    user, group = said("USER").split(":")
    made = " ".join(rest for word, rest in instructions(SERVICE) if word == "RUN")

    assert (int(user), int(group)) > (0, 0)
    assert f"useradd --uid {user} --gid {group}" in made
    assert f"install --directory --owner {user} --group {group} --mode 0700 {said('VOLUME')}" in made
    words = [word for word, _ in instructions(SERVICE)]
    assert words.index("USER") > max(number for number, word in enumerate(words) if word == "RUN")


def test_the_service_finds_its_data_and_answers_where_the_file_says() -> None:
    """Volume and ports are those of its settings."""
    settings = load({}, environment(), Path(os.devnull))
    ports = {int(port.removesuffix("/tcp")) for port in said("EXPOSE").split()}

    assert {name.removeprefix("FOREWARN_").lower() for name in environment()} <= set(KEYS)
    assert str(settings.data) == said("VOLUME")
    assert settings.control is not None
    assert ports == {settings.metadata.port, settings.control.port}
    assert (json.loads(said("ENTRYPOINT")), json.loads(said("CMD"))) == (["forewarn"], ["serve"])
    assert said("STOPSIGNAL") == "SIGTERM"


def test_the_daemon_set_names_the_agents_image() -> None:
    """And says which command it runs."""
    text = DAEMON_SET.read_text(encoding="utf-8")

    assert "image: forewarn-agent #" in text
    assert "args: [agent, --config, /etc/forewarn/agent.toml]" in text


@pytest.mark.end_to_end
def test_the_health_check_tells_whether_the_service_is_well(tmp_path: Path) -> None:
    """Run as the container runs it: 0 once the service is ready, something else when it is gone."""
    data = tmp_path / "data"
    given = os.environ | environment() | {"FOREWARN_DATA": str(data), "FOREWARN_CONTROL": "off"}
    given["FOREWARN_METADATA"] = f"127.0.0.1:{free_port()}"

    def is_well() -> bool:
        return subprocess.run(health_check(), check=False, capture_output=True, env=given, timeout=60).returncode == 0

    assert not is_well()
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "forewarn", *json.loads(said("CMD"))]
        with subprocess.Popen(command, cwd=tmp_path, env=given, stdout=log, stderr=log) as service:
            try:
                deadline = monotonic() + 60
                while not is_well():
                    assert service.poll() is None, (tmp_path / "log").read_text()
                    assert monotonic() < deadline
                    sleep(0.1)
            finally:
                service.terminate()
    assert service.returncode == 0
    assert not is_well()


@pytest.mark.end_to_end
def test_what_a_build_from_a_clone_is_given_is_enough(tmp_path: Path) -> None:
    """The files that are not left out make the package."""
    root, clone = DEPLOY.parent, tmp_path / "src"
    clone.mkdir()
    for name in re.findall(
        r"^!(.+)$", SERVICE.with_suffix(".dockerignore").read_text(encoding="utf-8"), re.MULTILINE
    ):
        place = root / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, clone / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", tmp_path, clone], check=True, capture_output=True, timeout=120)

    (wheel,) = tmp_path.glob("forewarn-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "forewarn/serving.py" in names
    assert any(name.endswith("share/forewarn/service/Dockerfile") for name in names)
