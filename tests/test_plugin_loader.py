"""Finding drivers and journals by name."""

import sys
from pathlib import Path

import pytest

from forewarn import plugin_loader
from forewarn.core.errors import BadInput
from forewarn.drivers.simulated import SimulatedDriver

DRIVERS = "forewarn.drivers"


def install(place: Path, name: str, value: str, module: str | None = None) -> None:
    """Lay out a distribution that offers a driver, as an installer would."""
    information = place / f"{name}_plugin-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{DRIVERS}]\n{name} = {value}\n")
    if module is not None:
        (place / f"{value.partition(':')[0]}.py").write_text(module)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_our_own_go_through_the_same_door() -> None:
    """A built-in driver is found by its entry point."""
    assert plugin_loader.load(DRIVERS, "simulated") is SimulatedDriver
    assert {"command", "simulated"} <= set(plugin_loader.names(DRIVERS))


def test_a_stranger_is_found_and_loaded_only_when_named(place: Path) -> None:
    """What somebody else installed is listed without being imported, and imported when named."""
    install(place, "stranger", "strange_driver:Strange", "class Strange: pass\n")

    assert "stranger" in plugin_loader.names(DRIVERS)
    assert "strange_driver" not in sys.modules
    assert getattr(plugin_loader.load(DRIVERS, "stranger"), "__name__", "") == "Strange"


def test_an_unknown_name_is_answered_with_the_nearest_and_the_list() -> None:
    """The sentence helps whoever mistyped."""
    with pytest.raises(BadInput) as refused:
        plugin_loader.load(DRIVERS, "simulatd")

    assert str(refused.value) == (
        f"there is no driver 'simulatd' (installed: {', '.join(plugin_loader.names(DRIVERS))});"
        " did you mean 'simulated'?"
    )


def test_a_group_without_members_says_so() -> None:
    """Where nothing is installed, the list is none."""
    with pytest.raises(BadInput, match=r"^there is no marvel 'x' \(installed: none\)$"):
        plugin_loader.load("forewarn.marvels", "x")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import no_such_module_anywhere\n", "No module named 'no_such_module_anywhere'"),
        ("raise RuntimeError('two\\nlines')\n", "two"),
        ("raise ValueError\n", "ValueError"),
        ("def broken(:\n", "invalid syntax"),
        ("", "has no attribute 'Driver'"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_one_sentence(place: Path, module: str, said: str) -> None:
    """Whatever happens inside a stranger's module, the operator reads one line that names it."""
    name = f"broken_{abs(hash(module))}"
    install(place, "broken", f"{name}:Driver", module)
    with pytest.raises(BadInput) as refused:
        plugin_loader.load(DRIVERS, "broken")

    assert str(refused.value).startswith(f"driver 'broken' ({name}:Driver) cannot be loaded: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("extra", "remedy"),
    [
        ("", "install what it needs, or name another"),
        ("Provides-Extra: broken\n", "install what it needs with: pip install 'broken-plugin[broken]'"),
    ],
)
def test_the_remedy_is_the_extra_of_the_same_name_where_there_is_one(place: Path, extra: str, remedy: str) -> None:
    """A line to type, where one is known."""
    install(place, "broken", "no_such_module_anywhere:Driver")
    with (place / "broken_plugin-1.0.dist-info" / "METADATA").open("a") as metadata:
        metadata.write(extra)
    with pytest.raises(BadInput) as refused:
        plugin_loader.load(DRIVERS, "broken")

    assert str(refused.value).endswith(f"; {remedy}")


def test_two_that_bear_one_name_are_refused(place: Path) -> None:
    """Nobody is chosen by chance."""
    install(place, "simulated", "elsewhere:Other")
    with pytest.raises(BadInput, match="offered more than once"):
        plugin_loader.load(DRIVERS, "simulated")
