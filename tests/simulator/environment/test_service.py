"""The service in a simulation: what becomes of its process."""

import pytest

from forewarn.journal.port import Recovered
from forewarn.simulator.environment.journal import SimulatedJournal
from forewarn.simulator.plan import parse_plan
from forewarn.simulator.seeds import SeedRun, run_plan

FLEET = """
seed 1
hurry 60
ends 40
host h1
group web availability-set
vm web-0 in web on h1 ud=0 fd=0 address=10.0.0.1 guest=prompt
"""


def run(text: str, fleet: str = FLEET) -> SeedRun:
    return run_plan(parse_plan(fleet + text), has_transcript=True)


@pytest.mark.parametrize("nodes", ["", "nodes 2\n"])
@pytest.mark.parametrize("phase", ["start", "stop"])
def test_a_start_or_a_stop_can_be_killed(phase: str, nodes: str) -> None:
    """The service is started again, and serves; only one start or stop is killed."""
    restarted = "node leader" if nodes else "the service"
    actions = f"5 the service is killed 5 callbacks into its next {phase}\n5 {restarted} is restarted\n"
    report = run(actions, FLEET.replace("host h1", f"{nodes}host h1"))

    assert report.problems == []
    assert report.reached[f"killed during {phase}"] == 1
    starts = [line for line in report.lines if line.endswith(": starting")]
    assert len(starts) == 2 + 1 + (phase == "start")  # a service that is alone is restarted at the end


@pytest.mark.parametrize(
    ("driver", "nodes", "end"),
    [
        ("machines", "", "the service is killed after 0 callbacks"),
        ("webhook", "", "the service is killed after 0 callbacks"),
        ("command", "", "the machine of the service loses power"),
        ("unfenced", "nodes 2\n", "node leader is killed after 0 callbacks"),
    ],
)
def test_a_record_of_an_unfinished_event_is_damaged_when_the_service_ends(driver: str, nodes: str, end: str) -> None:
    """It is no other moment at which half a line can be left; the event ends all the same."""
    restarted = "node leader" if nodes else "the service"
    actions = f"""
5 ann asks for restart of web-0 with key k1
6 a progress file of the driver is torn
7 {restarted} is restarted
25 {end}
"""
    settings = f"{nodes}driver {driver}\nslowness 3\nhost h1"
    report = run(actions, FLEET.replace("host h1", settings, 1))

    assert report.problems == []
    assert report.reached["driver record torn"] == 1
    assert report.reached["fact Completed"] + report.reached["fact Failed"] == 1


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_request_of_an_operator_is_lost_or_its_response(seed: int) -> None:
    """It is sent again with its key, and has one effect."""
    actions = "5 the network loses 0.9 of what is sent for 10 s\n6 ann asks for restart of web-0 with key k1\n"
    report = run(actions, FLEET.replace("seed 1", f"seed {seed}"))

    assert report.problems == []
    assert report.reached["control request lost"] > 0
    assert report.reached["fact Announced"] == 1


@pytest.mark.parametrize(
    "request_",
    [
        "ann asks for cordon of host h1 with key k1",
        'ann patches the fleet with {"hosts":[{"name":"h7"}]} with key k1',
    ],
)
def test_a_request_that_is_sent_twice_has_one_effect(request_: str) -> None:
    """Both are answered alike, and so is the repetition at the end."""
    report = run(f"5 the next request of ann is sent twice\n5 {request_}\n")

    assert report.problems == []
    assert [number for name, number in report.reached.items() if name.startswith("control P") and "20" in name] == [3]


def test_what_a_restart_forgets_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end the service is restarted once more, and must show the same."""
    load = SimulatedJournal.load

    def load_without_cordons(self: SimulatedJournal) -> Recovered:
        found = load(self)
        found.fleet.cordoned.clear()
        return found

    monkeypatch.setattr(SimulatedJournal, "load", load_without_cordons)
    report = run("5 ann asks for cordon of host h1 with key k1\n")

    assert [problem.partition(" differs")[0] for problem in report.problems] == ["after a restart /v1/hosts"]
