"""Rates of VMs that ask several nodes: together the nodes admit about what one of them would."""

from forewarn.cluster.peers.rates import NodeRates, RateExchange
from forewarn.core.facts import Enrolled
from forewarn.metadata.limits import Limits
from forewarn.metadata.long_poll import NO_RECEIVER
from forewarn.metadata.request import RequestCache
from forewarn.metadata.responses import ThrottledResponse
from tests.metadata.harness import NOW, WEB, MetadataHarness, get

LIMITS = Limits(rate=5.0, burst=20)


class LimitedNode:
    """A node, and a VM that asks it."""

    def __init__(self, nodes: int) -> None:
        self.harness = MetadataHarness(LIMITS)
        self.harness.commit(WEB, Enrolled("web", NOW, ""))
        self.rates = NodeRates(self.harness.service, self.harness.document_cache, self.harness.seconds)
        self.harness.service.set_limits(LIMITS)
        self.rates.set_nodes(nodes)
        self._request, _ = RequestCache().read(get())
        self.admitted = 0

    def ask(self, address: str = "127.0.0.1") -> bool:
        answer = self.harness.service.answer(self._request, b"", address, NO_RECEIVER)
        is_admitted = not isinstance(answer, ThrottledResponse)
        self.admitted += is_admitted
        return is_admitted


class LimitedCluster:
    """Some nodes that exchange what they counted each second."""

    def __init__(self, nodes: int) -> None:
        self.nodes = [LimitedNode(nodes) for _ in range(nodes)]
        self.exchange = RateExchange(self.nodes[0].harness.seconds)

    def run(self, seconds: int, per_second: int) -> int:
        """Let a VM ask each node so often; return how many requests were admitted."""
        before = sum(node.admitted for node in self.nodes)
        for _ in range(seconds):
            for _ in range(per_second):
                for node in self.nodes:
                    node.ask()
                    node.harness.move(1 / per_second)
            for number, node in enumerate(self.nodes):
                node.rates.add(self.exchange.exchange(f"n{number}", node.rates.take()))
        return sum(node.admitted for node in self.nodes) - before


def test_a_vm_gains_nothing_for_long_by_asking_all_nodes() -> None:
    """It asks each of three nodes as often as it may ask one; after their bursts are used up, the rate holds."""
    cluster = LimitedCluster(3)
    first = cluster.run(30, 5)
    steady = cluster.run(60, 5) / 60

    assert first <= 30 * 5 + 3 * 20
    assert 4.0 <= steady <= 6.0


def test_a_vm_that_stays_below_its_share_is_not_counted() -> None:
    """Most VMs ask once a second or less; nothing is exchanged for them."""
    node = LimitedNode(3)
    for _ in range(10):
        assert node.ask()
        node.harness.move(0.61)

    assert node.rates.take() == {}
    assert node.ask()
    node.harness.move(0.3)
    assert node.ask()
    assert node.rates.take() == {"web-0": 1}
    assert node.rates.take() == {}


def test_a_vm_that_asks_one_node_has_its_whole_rate() -> None:
    """However many nodes there are: its rate, and a burst."""
    cluster = LimitedCluster(3)
    node = cluster.nodes[0]

    assert sum(node.ask() for _ in range(30)) == 20
    for _ in range(50):
        node.harness.move(0.2)
        assert node.ask()
        node.rates.add(cluster.exchange.exchange("n0", node.rates.take()))


def test_what_the_others_counted_never_locks_a_vm_out() -> None:
    """However much they report, it waits two seconds longer than after its own burst."""
    node = LimitedNode(2)
    node.rates.add({"web-0": 1_000_000, "removed-0": 5})

    assert not node.ask()
    assert node.ask("127.0.0.2")
    node.harness.move(2.0)
    assert not node.ask()
    node.harness.move(0.2)
    assert node.ask()


def test_a_node_is_told_what_the_others_counted_once() -> None:
    """One that reports nothing for long is told nothing of what was before."""
    now = 0.0
    exchange = RateExchange(lambda: now)
    assert exchange.exchange("a", {"v": 1}) == {}
    assert exchange.exchange("b", {"v": 2}) == {}
    assert exchange.exchange("a", {"v": 4}) == {"v": 2}
    assert exchange.exchange("b", {}) == {"v": 4}
    assert exchange.exchange("b", {"w": 8}) == {}
    now = 11.0
    assert exchange.exchange("a", {}) == {}
