"""Gates and alerts: what is well, what is not, and what cannot be asked at all."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from forewarn.core.rollouts.model import HealthGate, RolloutOperation, RolloutTerms
from forewarn.node.rollout_checks import GateResult, GateUnusable, RolloutChecker

ANSWERS: dict[str, object] = {
    "errors": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "0.5"]}]},
    "scalar(1)": {"resultType": "scalar", "result": [1, "1"]},
    "many": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "1"]}] * 2},
}
"""What Prometheus answers, by the query, as its HTTP API documents it."""


class Handler(BaseHTTPRequestHandler):
    """A health page, and the query API of a Prometheus with one firing alert."""

    def do_GET(self) -> None:
        """Answer."""
        parts = urlsplit(self.path)
        if parts.path == "/api/v1/query":
            (query,) = parse_qs(parts.query)["query"]
            alert = {"metric": {"alertname": "Down"}, "value": [1, "1"]}
            names = re.search(r'alertname=~("[^}]*")', query)
            is_firing = names and re.fullmatch(json.loads(names[1]), "Down")
            firing = {"resultType": "vector", "result": [alert] if is_firing else []}
            body = {"status": "success", "data": ANSWERS.get(query, firing)}
            self._send(200, msgspec.json.encode(body))
        else:
            self._send(200 if parts.path == "/well" else 503, b"said so")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def terms(gate: HealthGate | None = None, prometheus: str = "", alerts: tuple[str, ...] = ()) -> RolloutTerms:
    return RolloutTerms(
        operation=RolloutOperation.REBOOT, all_hosts=True, gate=gate, prometheus=prometheus, alerts=alerts
    )


def test_a_url_is_well_while_it_answers_with_success() -> None:
    """What it said is told in both cases."""
    with serving() as base:
        well = RolloutChecker().check(terms(HealthGate(url=f"{base}/well")))
        unwell = RolloutChecker().check(terms(HealthGate(url=f"{base}/unwell")))
    assert (well.passed, unwell.passed) == (True, False)
    assert "answered 503: said so" in unwell.detail


@pytest.mark.parametrize(
    ("query", "threshold", "passed"),
    [("errors", "<1", True), ("errors", "<0.5", False), ("errors", "<=0.5", True), ("scalar(1)", ">0", True)],
)
def test_a_query_is_held_against_its_threshold(query: str, threshold: str, *, passed: bool) -> None:
    """Vectors of one number, and scalars."""
    with serving() as base:
        found = RolloutChecker().check(terms(HealthGate(query=query, threshold=threshold), base))
    assert found.passed is passed


def test_a_query_with_several_results_is_no_gate() -> None:
    """It is refused at start, and pauses a rollout later."""
    gate = HealthGate(query="many", threshold="<1")
    with serving() as base:
        with pytest.raises(GateUnusable, match="the query has 2 results, and a gate needs one number"):
            RolloutChecker().try_out(terms(gate, base))
        assert RolloutChecker().check(terms(gate, base)).passed is False


def test_alerts_that_fire_are_named() -> None:
    """Others do not matter."""
    with serving() as base:
        firing = RolloutChecker().check(terms(prometheus=base, alerts=("Down", "Slow")))
        quiet = RolloutChecker().check(terms(prometheus=base, alerts=("Slow",)))
    assert firing == GateResult(False, "alerts fire: Down", ("Down",))
    assert quiet == GateResult(True, "no alert fires")


@pytest.mark.parametrize("name", ["Do.n", ".*", 'Quo"te', "Back\\slash", "D(own"])
def test_the_name_of_an_alert_is_no_pattern(name: str) -> None:
    """Only the alert of exactly that name blocks, and the query stays well formed."""
    with serving() as base:
        assert RolloutChecker().check(terms(prometheus=base, alerts=(name,))).passed
        assert not RolloutChecker().check(terms(prometheus=base, alerts=(name, "Down"))).passed


def test_a_server_that_does_not_answer_is_no_reason_to_go_on() -> None:
    """A gate that cannot be asked has not passed."""
    gate = HealthGate(url="http://127.0.0.1:1/")
    assert RolloutChecker().check(terms(gate)).passed is False
    with pytest.raises(GateUnusable, match=r"which waves depend on, does not answer: .*; see that it runs"):
        RolloutChecker().try_out(terms(gate))
