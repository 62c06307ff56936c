"""What a configuration can hardly mean; and that no example of ours needs the advice."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.agent.decision.rules import ApprovalMode, Concern, EventRule
from forewarn.agent.runtime.assembly import make_handlers
from forewarn.agent.settings import load
from forewarn.agent.settings_advice import find_doubtful_settings
from forewarn.core.model import EventSource, EventType

FREEZE, REBOOT = EventType.FREEZE, EventType.REBOOT
SHORT = timedelta(seconds=10)
UNKNOWN = (
    "the duration of these events is unknown; add a rule for them without duration_at_most and duration_at_least"
)
ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples() -> list[tuple[str, str]]:
    """Return every configuration of an agent that a page shows, and those that are shipped."""
    pages = [*(ROOT / "docs").glob("how-to/*.md"), *(ROOT / "docs/handlers").glob("*.md")]
    pages.remove(ROOT / "docs/how-to/write-a-handler.md")  # its handler is installed by the test of that page
    found = [(page.stem, block) for page in sorted(pages) for block in _BLOCK.findall(page.read_text())]
    shipped = (ROOT / "deploy/agent/agent.toml").read_text()
    return [("shipped", shipped), *((page, block) for page, block in found if "[[rules]]" in block)]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ((EventRule(name="a", types=(FREEZE,), duration_at_most=SHORT), EventRule(name="b")), []),
        (
            (EventRule(name="a", types=(REBOOT, FREEZE), duration_at_most=SHORT),),
            [f"rule 'a' never matches Reboot: {UNKNOWN}"],
        ),
        (
            (EventRule(name="a"), EventRule(name="b", types=(FREEZE,))),
            ["rule 'b' is never used: rule 'a' before it matches the same events"],
        ),
        ((EventRule(name="a"), EventRule(name="b", concerns=Concern.OTHERS)), []),
        ((EventRule(name="a", types=(REBOOT,)), EventRule(name="b")), []),
        ((EventRule(name="a", types=(REBOOT,)), EventRule(name="b", types=(FREEZE, REBOOT))), []),
        ((EventRule(name="a", source=EventSource.USER), EventRule(name="b")), []),
        ((EventRule(name="a", description="*repair*"), EventRule(name="b")), []),
        ((EventRule(name="a", resources=("db-*",)), EventRule(name="b")), []),
        ((EventRule(name="a", duration_at_most=SHORT), EventRule(name="b")), []),
    ],
)
def test_a_rule_that_fits_less_than_it_seems_to_is_told(rules: tuple[EventRule, ...], said: list[str]) -> None:
    """And nothing of one that does what it says."""
    assert list(find_doubtful_settings(rules, ())) == said


def test_a_handler_in_no_rule_is_told() -> None:
    """It would never be called."""
    rules = (EventRule(name="a", stages=(("drain",),)),)

    assert list(find_doubtful_settings(rules, ("drain", "tell"))) == [
        "handler 'tell' is in no rule and is never called"
    ]


def test_only_handlers_that_an_approval_waits_for_are_told_to_say_what_a_failure_means() -> None:
    """Where the agent approves at once, or never, no handler can hold the approval."""
    rules = (
        EventRule(name="a", types=(FREEZE,), stages=(("tell",),), approval=ApprovalMode.AT_ONCE),
        EventRule(name="b", stages=(("drain",),), approval=ApprovalMode.WHEN_READY),
    )
    (said,) = find_doubtful_settings(rules, (), ("drain", "tell"))

    assert said.startswith("no on_failure is set for drain: the default is hold")


@pytest.mark.parametrize(("page", "text"), examples())
def test_every_example_is_a_configuration_that_does_what_it_says(page: str, text: str, tmp_path: Path) -> None:
    """Its handlers can be made, and there is nothing to advise."""
    path = tmp_path / "agent.toml"
    path.write_text(text)
    settings = load({"state": str(tmp_path)}, {}, path)
    for handler in make_handlers(settings).values():
        handler.close()

    assert list(find_doubtful_settings(settings.rules, settings.handlers)) == [], page
