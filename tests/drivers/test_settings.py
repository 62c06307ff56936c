"""How drivers read their settings: each mistake is one sentence that names the key."""

import msgspec
import pytest

from forewarn.core.errors import BadInput
from forewarn.drivers import settings


class Example(msgspec.Struct):
    """A driver's settings."""

    reboot: float = 30.0
    words: dict[str, str] = {}


def test_settings_become_a_record() -> None:
    """What is given replaces the defaults."""
    assert settings.read("example", {"reboot": 2}, Example) == Example(reboot=2.0)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rebot": 1}, "driver 'example' has no setting 'rebot' (it has reboot, words); did you mean 'reboot'?"),
        ({"reboot": "x"}, "setting 'reboot' of driver 'example': expected `float`, got `str`"),
        ({"words": {"a": 1}}, "setting 'words[...]' of driver 'example': expected `str`, got `int`"),
    ],
)
def test_a_mistake_is_one_sentence(given: dict[str, object], sentence: str) -> None:
    """The sentence names the driver, the key and what it may be."""
    with pytest.raises(BadInput) as refused:
        settings.read("example", given, Example)

    assert str(refused.value) == sentence
