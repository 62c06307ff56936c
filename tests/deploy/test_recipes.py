"""The recipes for the agent: each can be run, each is told, and those whose counterpart is here keep the contract."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent import settings
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerResult
from forewarn.agent.handlers.command import CommandHandler
from forewarn.agent.runtime.assembly import make_handlers
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial
from tests.deploy.slurm import Slurm

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "deploy" / "agent" / "recipes").iterdir())
PAGE = (ROOT / "docs" / "how-to" / "recipes-for-the-agent.md").read_text(encoding="utf-8")


class RecipeTrial(HandlerTrial):
    """A recipe as the command handler calls it."""

    recipe: str

    def environment(self) -> dict[str, str]:
        raise NotImplementedError

    def make(self, **more: object) -> CommandHandler:
        program = str(ROOT / "deploy" / "agent" / "recipes" / self.recipe)
        given = {"do": [program, "do"], "undo": [program, "undo"], "environment": self.environment()}
        return CommandHandler.from_settings(given | more, self.directory)

    def do(self, *, seconds: float | None = None) -> HandlerResult:
        return self.make().do(self.task(Direction.DO, seconds=seconds))

    def undo(self) -> HandlerResult:
        return self.make().undo(self.task(Direction.UNDO))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: each.name)
def test_every_recipe_is_a_program_of_its_own(recipe: Path) -> None:
    """It may be executed, and says what it is on its second line."""
    first, second = recipe.read_text(encoding="utf-8").splitlines()[:2]

    assert os.access(recipe, os.X_OK)
    assert first == "#!/bin/sh"
    assert second.startswith("# ")
    assert second.endswith(f": {recipe.name} do | undo")


@pytest.mark.end_to_end
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: each.name)
def test_every_recipe_is_understood_by_a_plain_shell(recipe: Path) -> None:
    """Its syntax is POSIX."""
    assert subprocess.run(["sh", "-n", recipe], check=False).returncode == 0


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: each.name)
def test_every_recipe_is_told(recipe: Path, tmp_path: Path) -> None:
    """Its section has an agent.toml that an agent would take, and names what it reads from its environment."""
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (section,) = [each for each in sections if f"\n`deploy/agent/recipes/{recipe.name}`" in each]
    (example,) = re.findall(r"^```toml\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    (tmp_path / "agent.toml").write_text(example, encoding="utf-8")
    read = re.findall(r"^#   ([A-Z, ]+)  ", recipe.read_text(encoding="utf-8"), re.MULTILINE)

    assert make_handlers(settings.load({}, {}, tmp_path / "agent.toml"))
    assert [name for names in read for name in names.split(", ") if f"`{name.strip()}`" not in section] == []


class HealthFileTrial(RecipeTrial):
    """A file that a load balancer asks for."""

    recipe = "health-file"

    def __init__(self, place: Path) -> None:
        super().__init__(place / "kept")
        self.file = place / "healthy"
        self.file.write_text("yes")

    def environment(self) -> dict[str, str]:
        return {"FILE": str(self.file), "SETTLE": "0"}

    def is_ready(self) -> bool:
        return not self.file.exists()

    def is_back(self) -> bool:
        return self.file.exists() and self.file.read_text() == "yes"

    def hang(self) -> bool:
        return False

    def get_ready_by_hand(self) -> bool:
        self.file.unlink()
        return True


@pytest.mark.end_to_end
class TestHealthFile(HandlerContract):
    """The file goes and comes back as it was, unless an administrator took it."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> HandlerTrial:
        return HealthFileTrial(tmp_path)


@pytest.mark.end_to_end
def test_people_are_told_what_and_when_and_that_it_is_over(tmp_path: Path) -> None:
    """The sentence goes to whatever TELL names."""

    class Telling(HealthFileTrial):
        recipe = "tell-people"

        def environment(self) -> dict[str, str]:
            return {"TELL": f"cat >> {tmp_path}/told"}

    trial = Telling(tmp_path)
    assert isinstance(trial.do(), HandlerDone)
    assert isinstance(trial.undo(), HandlerDone)
    first, second = (tmp_path / "told").read_text().splitlines()

    assert re.fullmatch(
        r"Reboot of web-0 not before \w{3}, .* GMT\. Host server is undergoing maintenance\. Please save your work\.",
        first,
    )
    assert second == "The Reboot of web-0 is over."


class SlurmTrial(RecipeTrial):
    """A node that is drained."""

    recipe = "slurm-drain"
    hanging_call = 5.0

    def __init__(self, directory: Path, slurm: Slurm) -> None:
        super().__init__(directory)
        self.slurm = slurm

    def environment(self) -> dict[str, str]:
        return {"NODE": "vm0", "SLURM_CONF": str(self.slurm.configuration)}

    def is_ready(self) -> bool:
        return self.slurm.state().startswith("drain")

    def hang(self) -> bool:
        self.slurm.begin_job()
        return True

    def get_ready_by_hand(self) -> bool:
        self.slurm.run("scontrol", "update", "nodename=vm0", "state=drain", "reason=broken fan")
        return True


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    slurm = Slurm(tmp_path)
    yield slurm
    slurm.close()


@pytest.mark.end_to_end
class TestSlurm(HandlerContract):
    """A real node is drained and resumed, unless an administrator drained it."""

    @pytest.fixture
    def trial(self, tmp_path: Path, slurm: Slurm) -> HandlerTrial:
        return SlurmTrial(tmp_path / "kept", slurm)


@pytest.mark.end_to_end
def test_a_drain_of_slurm_names_the_jobs_that_are_left(tmp_path: Path, slurm: Slurm) -> None:
    """Jobs go on running; the failure tells their ids, and everybody sees why the node is drained."""
    job = slurm.begin_job()
    answer = SlurmTrial(tmp_path / "kept", slurm).do(seconds=5)

    assert isinstance(answer, HandlerFailed)
    assert answer.reason.endswith(f"jobs still run on vm0: {job}")
    assert slurm.run("sinfo", "--noheader", "--format=%E") == "forewarn: Reboot of web-0"


@pytest.mark.end_to_end
def test_a_node_that_slurm_does_not_have_is_told(tmp_path: Path, slurm: Slurm) -> None:
    """The remedy is NODE."""

    class Astray(SlurmTrial):
        def environment(self) -> dict[str, str]:
            return super().environment() | {"NODE": "vm9"}

    answer = Astray(tmp_path / "kept", slurm).do()
    assert isinstance(answer, HandlerFailed)
    assert "Slurm has no node vm9, or does not answer; set NODE" in answer.reason
