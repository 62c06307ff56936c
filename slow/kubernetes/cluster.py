"""A Kubernetes cluster, as its administrator sees it: nodes and pods that no machine stands behind.

No controllers and no kubelets run. What they would do, a test does: it writes how many disruptions a budget allows,
and lets go of a pod that was told to stop.
"""

import http.client
import json
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

ROOT = Path(__file__).parents[2]
ADMIN = "admin-token"
AGENT = "agent-token"
"""The token of the account that the shipped manifests make."""
NOBODY = "nobody-token"
"""The token of an account without any right."""

Object = dict[str, Any]


class Refused(Exception):
    """The API server answered no success."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


class Cluster:
    """An API server, as its administrator sees it."""

    def __init__(self, url: str, place: Path) -> None:
        self.url = url
        self.ca_file = place / "ca.pem"
        self.audit_file = place / "audit.log"
        self._place = place
        self._context = ssl.create_default_context(cafile=str(self.ca_file))

    def token_file(self, token: str) -> Path:
        path = self._place / f"{token}.txt"
        path.write_text(f"{token}\n")
        return path

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        content: str = "application/json",
        token: str = ADMIN,
    ) -> Object:
        host, _, port = self.url.removeprefix("https://").partition(":")
        connection = http.client.HTTPSConnection(host, int(port), timeout=10, context=self._context)
        said = body if isinstance(body, str | None) else json.dumps(body)
        connection.request(
            method, path, said, {"Authorization": f"Bearer {token}", "Content-Type": content, "Accept": "*/*"}
        )
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        if answer.status >= 300:
            raise Refused(answer.status, text)
        return dict(json.loads(text)) if text.startswith("{") else {"text": text}

    def merge(self, path: str, body: Object) -> Object:
        return self.ask("PATCH", path, body, "application/merge-patch+json")

    def add_node(self, name: str) -> "NodeUnderTest":
        self.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        return NodeUnderTest(self, name)

    def verbs_used(self) -> set[tuple[str, str]]:
        """Return which resource the agent's account did what to, from the server's own audit."""
        entries = [json.loads(line) for line in self.audit_file.read_text().splitlines()]
        return {(_resource(each["objectRef"]), each["verb"]) for each in entries if "objectRef" in each}


def _resource(reference: Object) -> str:
    part = f"/{reference['subresource']}" if "subresource" in reference else ""
    return f"{reference['resource']}{part}"


class NodeUnderTest:
    """One node and what runs on it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.path = f"/api/v1/nodes/{name}"
        self.graces: dict[str, int] = {}
        """How many seconds each pod that was told to stop got for it."""

    def read(self) -> Object:
        return self.cluster.ask("GET", self.path)

    def is_cordoned(self) -> bool:
        return bool(self.read()["spec"].get("unschedulable", False))

    def annotations(self) -> Object:
        return dict(self.read()["metadata"].get("annotations", {}))

    def condition(self, type: str = "MaintenancePending") -> Object:
        conditions = self.read()["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == type), {})

    def events(self) -> list[Object]:
        selected = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid={self.name}"
        return list(self.cluster.ask("GET", selected)["items"])

    def cordon(self) -> None:
        self.cluster.merge(self.path, {"spec": {"unschedulable": True}})

    def pods(self) -> set[str]:
        return {each["metadata"]["name"] for each in self._pods()}

    def _pods(self) -> list[Object]:
        return list(self.cluster.ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={self.name}")["items"])

    def add_pod(self, name: str, owner: str | None = "ReplicaSet", phase: str = "Running", **spec: object) -> str:
        """Have a pod run here; return its full name, which begins with the node's."""
        name = f"{self.name}-{name}"
        metadata: Object = {"name": name, "labels": {"app": name}}
        if owner:
            reference = {"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": str(uuid4())}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        containers = [{"name": "main", "image": "main"}]
        pod = {"metadata": metadata, "spec": {"nodeName": self.name, "containers": containers, **spec}}
        path = "/api/v1/namespaces/default/pods"
        self.cluster.ask("POST", path, pod)
        conditions = [{"type": "Ready", "status": "True"}]
        self.cluster.merge(f"{path}/{name}/status", {"status": {"phase": phase, "conditions": conditions}})
        return name

    def protect(self, pod: str, allowed: int = 0) -> None:
        """Put a pod under a disruption budget of its own, or change how many disruptions that allows."""
        path = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
        try:
            self.cluster.ask("GET", f"{path}/{pod}")
        except Refused:
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": pod}}}
            self.cluster.ask("POST", path, {"metadata": {"name": pod}, "spec": spec})
        status = {
            "currentHealthy": 1 + allowed,
            "desiredHealthy": 1,
            "disruptionsAllowed": allowed,
            "expectedPods": 1,
            "observedGeneration": 1,
        }
        self.cluster.merge(f"{path}/{pod}/status", {"status": status})

    @contextmanager
    def kubelet(self) -> Iterator[None]:
        """Let go of every pod that was told to stop, as a kubelet does when the containers have ended."""
        over = threading.Event()

        def work() -> None:
            while not over.wait(0.05):
                self.let_go()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def let_go(self) -> None:
        for pod in self._pods():
            metadata = pod["metadata"]
            if "deletionTimestamp" in metadata:
                self.graces[metadata["name"]] = metadata["deletionGracePeriodSeconds"]
                self.delete(metadata["name"])

    def delete(self, pod: str) -> None:
        self.cluster.ask("DELETE", f"/api/v1/namespaces/default/pods/{pod}", {"gracePeriodSeconds": 0})


def new_name() -> str:
    return f"node-{secrets.token_hex(4)}"
