"""Documents of the leader, for VMs that have seen newer ones than this node holds."""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from forewarn.cluster.leadership import Leadership
from forewarn.cluster.peers.client import NotLeader, PeerClient
from forewarn.cluster.peers.messages import DOCUMENT, DocumentQuestion, decode_document, decode_question, encode
from forewarn.core.errors import ForewarnError
from forewarn.metadata.monotonic_reads import LeaderDocument
from forewarn.metadata.service import MetadataService
from forewarn.wire.versions import API_VERSIONS, BY_NAME

log = logging.getLogger(__name__)

_ANSWER = 2.0
"""Seconds that the leader may take."""


class DocumentForwarding:
    """Asks the leader for documents."""

    def __init__(self, client: PeerClient, leadership: Leadership, confirm: Callable[[], Awaitable[bool]]) -> None:
        """``confirm`` tells whether this node leads and holds everything that is durable."""
        self._client = client
        self._leadership = leadership
        self._confirm = confirm

    @property
    def is_leading(self) -> bool:
        """Whether this node leads. Another one may hold newer documents all the same, until ``confirm`` returns."""
        return self._leadership.is_leading

    async def confirm(self) -> bool:
        """Return whether this node leads and holds everything that is durable; wait for what is being appended."""
        return await self._confirm()

    async def fetch(self, vm: str, version: int) -> LeaderDocument | None:
        """Return the document that a VM is shown in an api-version; None if that cannot be found out."""
        question = encode(DocumentQuestion(vm, API_VERSIONS[version].name))
        leader = self._leadership.leader
        while leader is not None:
            try:
                return decode_document(await self._client.post(leader, DOCUMENT, question, _ANSWER))
            except NotLeader as error:
                leader = error.leader if error.leader and error.leader.term > leader.term else None
            except (ForewarnError, msgspec.DecodeError) as error:
                log.warning("a document was not fetched", extra={"fields": {"vm": vm, "reason": str(error)}})
                return None
        return None


class DocumentReceiver:
    """Answers what other nodes ask for VMs, on the leader."""

    def __init__(self, service: MetadataService, confirm: Callable[[], Awaitable[bool]]) -> None:
        """``confirm`` tells whether this node leads and holds everything that is durable."""
        self._service = service
        self._confirm = confirm

    async def answer(self, body: bytes) -> bytes:
        question = decode_question(body)
        version = BY_NAME.get(question.api_version)
        if version is None or not await self._confirm():
            return encode(None)
        return encode(self._service.document_for_peer(question.vm, version.index))
