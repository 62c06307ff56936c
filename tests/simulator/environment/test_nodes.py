"""Several nodes in a simulation: they are killed, paused and cut off, and every promise is kept all the same."""

from collections import Counter
from pathlib import Path

import pytest

from forewarn.metadata import service
from forewarn.node.leader import Leader
from forewarn.simulator.generator import make_plan
from forewarn.simulator.plan import parse_plan
from forewarn.simulator.seeds import run_plan
from forewarn.simulator.simulation import Simulation, SimulationReport

pytestmark = pytest.mark.end_to_end

SEEDS = (20, 65, 66, 86)
"""They once found something."""
FLEET = """
seed 1
hurry 60
ends 40
nodes 3
host h1
host h2
group web availability-set
vm web-0 in web on h1 ud=0 fd=0 address=10.0.0.1 guest=prompt
vm web-1 in web on h2 ud=1 fd=0 address=10.0.0.2 guest=long-poll
"""


def run(text: str, directory: Path) -> SimulationReport:
    return Simulation(parse_plan(FLEET + text), directory, has_transcript=True).run()


@pytest.mark.end_to_end
def test_promises_are_kept_whatever_happens_to_nodes() -> None:
    """Leaders change, and equal seeds give equal runs."""
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        done = run_plan(make_plan(seed, has_nodes=True))
        assert done.problems == []
        reached += done.reached
    assert reached["leader changed"] > len(SEEDS)
    assert run_plan(make_plan(SEEDS[-1], has_nodes=True)).digest == done.digest


def test_a_leader_that_is_paused_past_its_lease_is_replaced(tmp_path: Path) -> None:
    """What was begun is carried out once, and the transcript tells what happened."""
    report = run(
        """
        5 ann asks for restart of web-0 with key k1
        5.5 node leader is paused for 10 s
        """,
        tmp_path,
    )

    assert report.problems == []
    assert report.reached["machine reboot"] == 1
    text = "\n".join(report.lines)
    assert "08:00:05.5 node leader is paused for 10.0 s" in text
    assert ": no longer paused" in text
    assert "E1 is completed" in text


def test_a_standby_without_the_last_entries_is_reported(tmp_path: Path) -> None:
    """Nodes load the journal again, and agree afterwards; nothing else is promised then."""
    report = run(
        """
        5 ann asks for restart of web-0 with key k1
        5.2 the database is down for 2 s, and its standby takes over without 2 entries
        """,
        tmp_path,
    )

    assert report.problems == []
    assert report.reached["entries lost"] == 1
    assert report.reached["journal loaded again"] > 0


@pytest.mark.parametrize("driver", ["machines", "immediate", "unfenced", "command", "webhook"])
def test_an_event_of_a_leader_that_was_killed_ends(driver: str, tmp_path: Path) -> None:
    """The next leader asks the driver, or ends it as unknown where the driver does not fence terms."""
    report = run(
        f"""
        driver {driver}
        5 ann asks for restart of web-0 with key k1
        6.5 node leader is killed after 0 callbacks
        """,
        tmp_path,
    )

    assert report.problems == []
    assert report.reached["machine reboot"] <= 1
    assert report.reached["leader changed"] > 1


def test_a_leader_that_does_not_look_at_its_lease_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on after a pause, and calls the driver for what was due meanwhile."""
    monkeypatch.setattr(Leader, "_may_call", lambda *_: True)
    text = "\n".join(
        f"{at} ann asks for restart of web-{number} with key k{at}\n{at + 2} node leader is paused for 10 s"
        for at, number in ((5, 0), (25, 1))
    )
    problems = run(text, tmp_path).problems

    assert any("called its driver in term" in each for each in problems), problems


def test_a_node_that_shows_older_documents_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows the journal late, and its callers have seen what other nodes hold."""
    monkeypatch.setattr(service, "is_behind", lambda *_: False)
    text = "4 nodes are not notified of entries for 30 s\n" + "\n".join(
        f"{at} ann asks for restart of web-0 with key k{at}" for at in (5, 10, 15)
    )
    problems = run(text, tmp_path).problems

    assert any("has seen" in each for each in problems), problems
