"""Faults of several nodes that share a journal: lease, terms, following, what nodes say to each other."""

from planted.fault import Fault

_CLUSTER_NODE = "tests/cluster/test_cluster_node.py"
_ONCE = "What another leader attempted is not repeated, unless the driver refuses leaders that were replaced."
_LEASE = "A leader whose lease may have ended appends nothing and calls no driver."
_MONOTONIC = "A VM that sends its ETag is never shown an older document, whichever node it asks."

FAULTS = (
    Fault(
        name="The lease is not checked before a driver is called",
        promise=_LEASE,
        file="src/forewarn/node/leader.py",
        old="        return self.may_act(term) and term == self._node.term",
        new="        return term == self._node.term",
        found_by=(_CLUSTER_NODE,),
    ),
    Fault(
        name="A driver is called for what was begun in an earlier term",
        promise=_ONCE,
        file="src/forewarn/node/leader.py",
        old="        return self.may_act(term) and term == self._node.term",
        new="        return self.may_act(self._node.term)",
        found_by=("tests/node/test_performer_terms.py", _CLUSTER_NODE),
    ),
    Fault(
        name="The lease counts from the answer of the database, not from the question",
        promise=_LEASE,
        file="src/forewarn/cluster/membership.py",
        old="self._lease = state.lease.term, sent + LEASE - _MARGIN",
        new="self._lease = state.lease.term, self._clock.seconds() + LEASE - _MARGIN",
        found_by=("tests/cluster/test_membership.py",),
    ),
    Fault(
        name="An append of an earlier term is taken",
        promise="Only the node that holds the lease appends.",
        file="src/forewarn/journal/shared_memory.py",
        old="            if term != self.term or self.leader is None or",
        new="            if self.leader is None or",
        found_by=("tests/journal/test_shared_memory.py",),
    ),
    Fault(
        name="A follower continues a journal that has lost entries",
        promise="A replica that differs from the journal after a failover loads it again, and reports it.",
        file="src/forewarn/journal/shared_memory.py",
        old="        if after == revision and revision and self._store.numbers[revision - 1] != number:",
        new="        if False:",
        found_by=("tests/simulator/environment/test_database.py",),
    ),
    Fault(
        name="A follower does not load a journal again that does not continue its replica",
        promise="A replica that differs from the journal after a failover loads it again, and reports it.",
        file="src/forewarn/cluster/following.py",
        old="            await self._undisturbed(self._reload(error))",
        new="            log.debug(str(error))",
        found_by=("tests/cluster/test_following.py",),
    ),
    Fault(
        name="A VM is answered before the node that it asked holds what the leader did for it",
        promise="A VM is shown what it was told has happened.",
        file="src/forewarn/cluster/peers/command_forwarding.py",
        old="        if not self._revisions.holds(results.revision):",
        new="        if False:",
        found_by=("tests/cluster/peers/test_command_forwarding.py",),
    ),
    Fault(
        name="A node shows an older document than its caller has seen",
        promise=_MONOTONIC,
        file="src/forewarn/metadata/service.py",
        old="            if leader is not None and is_behind(documents, tags):",
        new="            if leader is None and is_behind(documents, tags):",
        found_by=("tests/metadata/test_monotonic_reads.py",),
    ),
    Fault(
        name="A leader shows an older document while the outcome of its append is unknown",
        promise=_MONOTONIC,
        file="src/forewarn/cluster/cluster_node.py",
        old="            await self._node.writer.confirm()\n",
        new="            pass\n",
        found_by=(_CLUSTER_NODE,),
    ),
)
