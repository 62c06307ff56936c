"""The files for Prometheus, Alertmanager and Grafana: valid, about metrics that exist, and working together."""

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from forewarn.clocks import ManualClock
from forewarn.control.bodies import ClusterView, SubscriptionBody, TokenBody, VmOperationBody, WorkerView
from forewarn.control.client import ControlClient
from forewarn.control.server.event_counters import EventCounters
from forewarn.control.server.metrics import Metrics, MetricSources
from forewarn.core.errors import Unavailable
from forewarn.core.model import Role, SubscriptionKind
from forewarn.core.notice import Rules
from forewarn.journal.memory import MemoryJournal
from forewarn.node.node import Node
from tests.harness import FLEET
from tests.ports import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
CASES = Path(__file__).with_name("alert_cases.yml")
NAME = re.compile(r"\b(?:forewarn|process)_[a-z_]+")
PATIENCE = 180.0


def all_metrics() -> Metrics:
    """Return the metrics of a service that has everything: workers, other nodes, reloads."""
    node = Node(MemoryJournal(), ManualClock(), Rules())
    worker = WorkerView(
        number=1, pid=1, state="down", revision=0, connections=0, long_polls=0, age=0.0, leader_age=0.0, restarts=0
    )
    view = ClusterView(
        node="a", role="leading", leader="a", term=1, heartbeat_age=0.0, revisions_behind=0, behind=0.0,
        is_behind=False, clock_skew=0.0, format=1, reloads=0, nodes=(),
    )  # fmt: skip
    sources = MetricSources(
        documents=lambda: [("2020-07-01", 200, 0)],
        workers=lambda: [worker],
        cluster=lambda: view,
        reload=lambda: (0.0, True),
    )
    return Metrics(node, EventCounters(), sources)


def known() -> set[str]:
    """Return the names of all samples that the service tells of."""
    metrics = all_metrics()
    text = metrics.render().decode()
    empty = {family.name for family in metrics.collect() if not family.samples}
    return empty | {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if line[0] != "#"}


def queries() -> Iterator[tuple[str, str]]:
    """Yield every expression of the two files, and where it stands."""
    dashboard = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    yield "alerts.yml", (PROMETHEUS / "alerts.yml").read_text("utf-8").partition("groups:")[2]


def test_every_query_is_about_metrics_that_exist() -> None:
    """No panel and no rule asks for a name that nothing tells."""
    names = known()
    asked = {(place, name) for place, query in queries() for name in NAME.findall(query)}

    assert len(asked) > 20
    assert {(place, name) for place, name in asked if name not in names} == set()


def test_the_dashboard_can_be_imported() -> None:
    """Panels have ids of their own, do not overlap, and take the data source that is chosen."""
    dashboard = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text("utf-8"))
    panels = dashboard["panels"]
    taken = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(taken) == len(set(taken))
    assert all(x < 24 for x, _ in taken)
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels if panel["type"] != "row")


def test_every_alert_says_what_to_do() -> None:
    """Each has a summary, a sentence of the runbook and a severity."""
    rules = re.split(r"- alert: ", (PROMETHEUS / "alerts.yml").read_text("utf-8"))[1:]

    assert len(rules) >= 8
    for rule in rules:
        assert re.search(r"severity: (warning|critical)", rule), rule
        assert 'summary: "' in rule, rule
        assert 'runbook: "' in rule, rule


def test_every_metric_and_every_alert_is_explained() -> None:
    """The page for operators names each of them, and none that is not there."""
    page = (DEPLOY.parent / "docs" / "operate" / "metrics-and-alerts.md").read_text("utf-8")
    rows = "".join(line.partition(" | ")[0] for line in page.splitlines() if line.startswith("| `"))
    alerts = re.findall(r"- alert: (\w+)", (PROMETHEUS / "alerts.yml").read_text("utf-8"))

    assert sorted(re.findall(r"`(forewarn_\w+)`", rows)) == sorted(each.name for each in all_metrics().collect())
    assert sorted(re.findall(r"`(Forewarn\w+)`", rows)) == sorted(alerts)


@pytest.mark.end_to_end
def test_alerts_of_clusters_fire_when_they_should(tmp_path: Path) -> None:
    """Prometheus itself evaluates the rules over made-up series: healthy ones, and a fault for each alert."""
    shutil.copy(PROMETHEUS / "alerts.yml", tmp_path)
    cases = shutil.copy(CASES, tmp_path)
    tested = subprocess.run(
        ["promtool", "test", "rules", cases], cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300
    )
    group = (PROMETHEUS / "alerts.yml").read_text("utf-8").partition("name: forewarn-cluster")[2]

    assert tested.returncode == 0, tested.stdout + tested.stderr
    for alert in re.findall(r"- alert: (\w+)", group):
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts:\n", CASES.read_text("utf-8")), alert


@pytest.mark.end_to_end
def test_promtool_accepts_the_files(tmp_path: Path) -> None:
    """The example's configuration and its rules, as Prometheus itself checks them."""
    files = shutil.copytree(PROMETHEUS, tmp_path / "prometheus")
    (files / "forewarn-token").write_text("fw_0_0")

    checked = subprocess.run(
        ["promtool", "check", "config", "--lint=all", "--lint-fatal", "prometheus.yml"],
        cwd=files,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert re.search(r"SUCCESS: \d+ rules found", checked.stdout)


@contextmanager
def started(log: Path, *command: str) -> Iterator[None]:
    """Run a program until the test is over."""
    with log.open("wb") as said:
        program = subprocess.Popen(command, stdout=said, stderr=said, cwd=log.parent)
        try:
            yield
        finally:
            program.kill()
            program.wait(30)


def eventually(found: Callable[[], Any]) -> Any:
    """Return the first answer that is not empty."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if answer := found():
                return answer
        except (OSError, Unavailable):
            pass  # it is still starting
        time.sleep(0.2)
    raise AssertionError("nothing came in time")


@contextmanager
def receiver() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Run a webhook that keeps what Alertmanager sends."""
    received: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, received
        finally:
            server.shutdown()
            thread.join(30)


def configure(directory: Path, token: str, control: int, alertmanager: int, hook: int) -> None:
    """Write the example's files with other ports and with little patience."""
    config = (PROMETHEUS / "prometheus.yml").read_text("utf-8")
    config = config.replace(": 15s", ": 500ms").replace(":8255", f":{control}").replace(":9093", f":{alertmanager}")
    rules = re.sub(r"for: \w+", "for: 1s", (PROMETHEUS / "alerts.yml").read_text("utf-8"))
    (directory / "prometheus.yml").write_text(config)
    (directory / "alerts.yml").write_text(rules)
    (directory / "forewarn-token").write_text(token)
    (directory / "alertmanager.yml").write_text(
        "route: { receiver: hook, group_wait: 100ms }\n"
        f"receivers: [{{ name: hook, webhook_configs: [{{ url: 'http://127.0.0.1:{hook}/' }}] }}]\n"
    )


@pytest.mark.end_to_end
def test_prometheus_scrapes_and_alertmanager_fires(tmp_path: Path) -> None:
    """A subscriber that is down is told to a person, by way of a real Prometheus and a real Alertmanager."""
    metadata, control, prometheus, alertmanager, nowhere = (free_port() for _ in range(5))
    (tmp_path / "fleet.toml").write_text(FLEET.replace("10.0.0.1", "127.0.0.1"), encoding="utf-8")
    forewarn = (str(Path(sys.executable).parent / "forewarn"), "serve", "--data", "data", "--fleet", "fleet.toml")

    def status_of(request: Request) -> int:
        with urlopen(request, timeout=30) as answer:  # noqa: S310 an address of ours
            return int(answer.status)

    def query(expression: str) -> list[Any]:
        where = f"http://127.0.0.1:{prometheus}/api/v1/query?{urlencode({'query': expression})}"
        with urlopen(where, timeout=30) as answer:
            return list(json.load(answer)["data"]["result"])

    with ExitStack() as parts:
        hook, received = parts.enter_context(receiver())
        ports = ("--metadata", f"127.0.0.1:{metadata}", "--control", f"127.0.0.1:{control}")
        parts.enter_context(started(tmp_path / "forewarn.log", *forewarn, *ports))
        client = parts.enter_context(ControlClient.local(tmp_path / "data"))
        made = eventually(lambda: client.create_token(TokenBody(name="prometheus", role=Role.VIEWER)))
        configure(tmp_path, made.token, control, alertmanager, hook)
        address = f"--web.listen-address=127.0.0.1:{alertmanager}"
        config: tuple[str, ...] = (
            "--config.file=alertmanager.yml",
            "--storage.path=alerts",
            address,
            "--cluster.listen-address=",
        )
        parts.enter_context(started(tmp_path / "alertmanager.log", "prometheus-alertmanager", *config))
        address = f"--web.listen-address=127.0.0.1:{prometheus}"
        config = ("--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", address)
        parts.enter_context(started(tmp_path / "prometheus.log", "prometheus", *config))

        asked = f"http://127.0.0.1:{metadata}/metadata/scheduledevents?api-version=2020-07-01"
        assert eventually(lambda: status_of(Request(asked, headers={"Metadata": "true"}))) == 200
        dead = SubscriptionBody(name="ops", kind=SubscriptionKind.WEBHOOK, target=f"http://127.0.0.1:{nowhere}/")
        client.add_subscription(dead)
        client.operate_vm("web-0", VmOperationBody(operation="freeze"))

        (served,) = eventually(lambda: query('forewarn_documents_total{version="2020-07-01",status="200"} > 0'))
        assert served["value"][1] == "1"
        # What is told of it may be from before the event.
        assert eventually(lambda: query('forewarn_events{type="Freeze",status="Scheduled"} == 1'))
        assert eventually(lambda: query("forewarn_groups_enrolled == 1"))
        alerts = eventually(
            lambda: [
                alert
                for message in received
                for alert in message["alerts"]
                if alert["labels"]["alertname"] == "ForewarnSubscriberUnreachable"
            ]
        )
        assert alerts[0]["status"] == "firing"
        assert alerts[0]["annotations"]["summary"].startswith("ops has received no notifications")
