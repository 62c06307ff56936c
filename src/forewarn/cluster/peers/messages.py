"""What nodes say to each other, and its encoding.

follower                                                       leader
  POST /commands   CommandBatch ─────────────────────────────▶  submits them, and answers when all are durable
  ◀────────────────────────────────────── CommandResults(r)
  POST /reports    NodeRequests, each second ────────────────▶  records who asked
  ◀──────────────────────────────────────────── LeaderNews
  POST /document   DocumentQuestion ─────────────────────────▶  renders the document that a VM is shown
  ◀─────────────────────────────────────── LeaderDocument
  POST /control/v1/... as an operator sent it ───────────────▶  carries it out
  ◀────────────────────────── the response, and its revision

any node                                                       any node
  POST /status ──────────────────────────────────────────────▶  says how it is
  ◀─────────────────────────────────────────── NodeStatus

A node that does not lead answers 421, but for the last, with the leader that it knows.
"""

from collections.abc import Callable

import msgspec

from forewarn.cluster.leadership import KnownLeader
from forewarn.control.bodies import NodeStatus
from forewarn.core.commands import Approve, Enrol
from forewarn.core.facts import Fetch
from forewarn.metadata.monotonic_reads import LeaderDocument
from forewarn.node.command_errors import ErrorRecord

COMMANDS, REPORTS, DOCUMENT, CONTROL, STATUS = "/commands", "/reports", "/document", "/control", "/status"
MISDIRECTED = 421
PRINCIPAL_HEADER = "forewarn-principal"
REVISION_HEADER = "forewarn-revision"
LARGEST_MESSAGE = 16 * 1024 * 1024
"""Bytes of a message; requests of the control API have limits of their own."""


class CommandBatch(msgspec.Struct, frozen=True, gc=False):
    """Commands that waited together."""

    commands: tuple[Approve | Enrol, ...]


class CommandResults(msgspec.Struct, frozen=True, gc=False):
    """What came of each command, and the revision that holds all of it."""

    revision: int
    errors: tuple[ErrorRecord | None, ...]


class GroupAskedAgo(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """That a VM of a group asked, so many seconds before the report: the nodes' clocks differ."""

    group: str
    seconds: float
    vm: str


class NodeRequests(msgspec.Struct, frozen=True, gc=False):
    """What a node answered since its last report."""

    node: str
    asked: tuple[GroupAskedAgo, ...] = ()
    fetches: tuple[Fetch, ...] = ()
    spent: dict[str, int] = {}
    """Requests of VMs that ask often, by VM."""


class LeaderNews(msgspec.Struct, frozen=True, gc=False):
    """What only the leader knows."""

    spent: dict[str, int] = {}
    """Requests of VMs that ask often, which the other nodes answered since the last report of this one."""


class DocumentQuestion(msgspec.Struct, frozen=True, gc=False):
    """Ask for the document that a VM is shown in an api-version."""

    vm: str
    api_version: str


encode = msgspec.msgpack.Encoder().encode
decode_leader: Callable[[bytes], KnownLeader | None] = msgspec.msgpack.Decoder(KnownLeader | None).decode
decode_batch = msgspec.msgpack.Decoder(CommandBatch).decode
decode_results = msgspec.msgpack.Decoder(CommandResults).decode
decode_requests = msgspec.msgpack.Decoder(NodeRequests).decode
decode_news = msgspec.msgpack.Decoder(LeaderNews).decode
decode_question = msgspec.msgpack.Decoder(DocumentQuestion).decode
decode_status = msgspec.msgpack.Decoder(NodeStatus).decode
decode_document: Callable[[bytes], LeaderDocument | None] = msgspec.msgpack.Decoder(LeaderDocument | None).decode
