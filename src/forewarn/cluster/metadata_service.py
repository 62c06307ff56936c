"""The metadata service of a node that shares its journal: it can be paused while the node is behind."""

from forewarn.metadata.long_poll import LongPoll, ResponseReceiver
from forewarn.metadata.request import MetadataRequest
from forewarn.metadata.service import MetadataService
from forewarn.wire import error_responses

_RETRY = b"Retry-After: 1\r\n"


class ClusterMetadataService(MetadataService):
    """Answers requests from the replica of this node."""

    is_silent = False
    """Whether every request is answered 503: this node is behind, and others are not."""

    def answer(
        self, request: MetadataRequest, body: bytes, address: str, receiver: ResponseReceiver
    ) -> bytes | LongPoll | None:
        if self.is_silent:
            return self._refuse(error_responses.UNAVAILABLE, request, _RETRY)
        # Not ``super()``, which would cost more than the check above.
        return MetadataService.answer(self, request, body, address, receiver)

    def silence(self) -> None:
        """Answer no more documents, not even to requests that wait for a change."""
        self.is_silent = True
        self.long_polls.release_all()

    def _answer_long_poll(self, long_poll: LongPoll) -> bytes:
        if self.is_silent:
            return self._refuse(error_responses.UNAVAILABLE, long_poll.request, _RETRY)
        return super()._answer_long_poll(long_poll)
