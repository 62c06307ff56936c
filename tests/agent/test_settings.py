"""agent.toml: read whole, and each mistake named by its line, its key and the nearest valid one."""

from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.agent.decision.approval_turn import Approver
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.decision.rules import ApprovalMode, Concern, EventRule
from forewarn.agent.settings import AgentSettings, load
from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput
from forewarn.core.model import EventSource, EventType

WHOLE = """
url = "http://169.254.169.254"
name = "web-0"
state = "/var/lib/agent"
socket = "127.0.0.1:9255"
http = "off"
dry_run = true
approver = "coordinator"
takeover = "2m"
coordinator = ["/bin/decide", "--now"]

[[rules]]
name = "short freezes pass"
types = ["Freeze"]
duration_at_most = "10s"
approval = "never"

[[rules]]
types = ["Reboot", "redeploy"]
source = "Platform"
description = "*maintenance*"
resources = ["web-*"]
concerns = "any"
late = true
handlers = ["lb", ["database", "cache"]]

[handlers.lb]
kind = "haproxy"
timeout = "90s"
takes = 20
importance = 3
retries = 2
retry_after = "5s"
on_failure = "hold"
servers = ["web/vm-0"]

[handlers.database]
kind = "command"
do = ["true"]

[handlers.cache]
kind = "log"
"""


def read(tmp_path: Path, text: str) -> AgentSettings:
    path = tmp_path / "agent.toml"
    path.write_text(text, encoding="utf-8")
    return load({}, {}, path)


def test_everything_can_be_said(tmp_path: Path) -> None:
    """Each key arrives as what it means; what a handler does not share with others is left to it."""
    settings = read(tmp_path, WHOLE)

    assert settings.socket == ListenAddress("127.0.0.1", 9255)
    assert settings.http is None
    assert (settings.dry_run, settings.takeover) == (True, timedelta(minutes=2))
    assert (settings.approver, settings.coordinator) == (Approver.COORDINATOR, ("/bin/decide", "--now"))
    assert settings.rules == (
        EventRule(
            name="short freezes pass",
            types=(EventType.FREEZE,),
            duration_at_most=timedelta(seconds=10),
            approval=ApprovalMode.NEVER,
        ),
        EventRule(
            name="rule 2",
            types=(EventType.REBOOT, EventType.REDEPLOY),
            source=EventSource.PLATFORM,
            description="*maintenance*",
            resources=("web-*",),
            concerns=Concern.ANY,
            late=True,
            stages=(("lb",), ("database", "cache")),
        ),
    )
    lb = settings.handlers["lb"]
    assert (lb.kind, lb.settings) == ("haproxy", {"servers": ["web/vm-0"]})
    assert lb.terms == HandlerTerms(
        timeout=timedelta(seconds=90),
        takes=timedelta(seconds=20),
        importance=3,
        retries=2,
        retry_after=timedelta(seconds=5),
        on_failure=OnFailure.HOLD,
    )


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    """The one rule of all settings."""
    path = tmp_path / "agent.toml"
    path.write_text('url = "file"\nname = "file"\nlog_level = "error"\n')
    settings = load({"url": "flag"}, {"FOREWARN_AGENT_URL": "a", "FOREWARN_AGENT_NAME": "b"}, path)

    assert (settings.url, settings.name, settings.log_level) == ("flag", "b", "error")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("uri = 'x'", "line 1: there is no setting 'uri'; did you mean 'url'?"),
        ("\ndry_run = 'perhaps'", "line 2: dry_run is 'perhaps', expected true or false"),
        ("approver = 'me'", "line 1: approver is 'me', expected one of leader, each, coordinator"),
        ("socket = '0.0.0.0:1'", "line 1: socket is '0.0.0.0:1', expected a path, 127.0.0.1:PORT, or off"),
        ("[[rules]]\ntyps = []", "line 2: there is no setting 'rules.typs'; did you mean 'types'?"),
        (
            "[[rules]]\n[[rules]]\ntypes = ['Reboots']",
            "line 3: types in [[rules]] is ['Reboots'], expected a list of Freeze, Reboot, Redeploy,",
        ),
        ("[[rules]]\nsource = 'me'", "line 2: source in [[rules]] is 'me', expected Platform or User"),
        ("[rules]\nname = 'x'", "line 1: rules must be tables; write [[rules]] and its settings below"),
        (
            "[[rules]]\nhandlers = ['drain']\n[handlers.drains]\nkind = 'log'",
            "line 2: there is no handler 'drain'; did you mean 'drains'?",
        ),
        ("[[rules]]\nhandlers = ['a']", "line 2: there is no handler 'a'; write [handlers.a] and its kind"),
        (
            "[[rules]]\nhandlers = ['a', ['a']]\n[handlers.a]\nkind = 'log'",
            "line 2: handler 'a' is listed twice; list it once, or configure it under two names",
        ),
        ("[handlers.a]\ntimeout = '1m'", 'line 1: [handlers.a] has no kind; write kind = "command", or another'),
        ("[handlers.a]\nkind = 'log'\nretries = '1'", "line 3: retries in [handlers.a] is '1', expected a whole"),
        ("url = 'ftp://x'", "line 1: url is 'ftp://x', expected an address such as http://169.254.169.254"),
        ("coordinator = ['']", "line 1: coordinator is [''], expected a list of texts"),
        (
            "[handlers.a]\nkind = 'log'\ntimeout = '0s'",
            "line 1: [handlers.a] cannot end in time; set a timeout that is at least as long as takes",
        ),
        ("[handlers.a]\nkind = 'log'\ntakes = '61s'", "line 1: [handlers.a] cannot end in time"),
        ("[handlers.'../a']\nkind = 'log'", "line 1: '../a' is not a valid handler name; use letters, digits"),
        ("handlers = 3", "line 1: a handler must be a table; write [handlers.NAME] and its kind below"),
        ("[handlers", "line 1: "),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    """It names the line, what stands there, and what may stand there."""
    with pytest.raises(BadInput) as refused:
        read(tmp_path, text)

    assert f"agent.toml, {sentence}" in str(refused.value)


def test_a_coordinator_needs_its_command(tmp_path: Path) -> None:
    """Nobody would ever approve otherwise."""
    with pytest.raises(BadInput, match="needs a command; set coordinator"):
        read(tmp_path, 'approver = "coordinator"')


def test_without_a_file_the_defaults_count() -> None:
    """An agent without rules only tells what it hears."""
    assert load({}, {}, None) == AgentSettings()
