"""The metadata service of a worker: it shows what may be shown before each answer, and limits VMs with the others."""

from collections.abc import Callable

from forewarn.core.errors import Unavailable
from forewarn.metadata.document_cache import VmEntry
from forewarn.metadata.limits import Limits
from forewarn.metadata.long_poll import LongPoll, ResponseReceiver
from forewarn.metadata.request import MetadataRequest
from forewarn.metadata.service import MetadataService
from forewarn.wire import error_responses
from forewarn.workers.follower import Follower
from forewarn.workers.shared_limits import SharedRates

_RETRY = b"Retry-After: 1\r\n"


class WorkerMetadataService(MetadataService):
    """Answers requests as of the shown revision.

    A caller may ask one worker after another: what one has shown the next one shows too, because each compares its
    replica with the shown revision before it answers.
    """

    follower: Follower
    shown: memoryview
    rates: SharedRates
    has_leader: Callable[[], bool]

    def follow(
        self, follower: Follower, shown: memoryview, rates: SharedRates, has_leader: Callable[[], bool]
    ) -> None:
        """Answer from what the follower holds; call it before the first request."""
        self.follower = follower
        self.shown = shown
        self.rates = rates
        self.has_leader = has_leader
        self._held = follower.replica

    def answer(
        self, request: MetadataRequest, body: bytes, address: str, receiver: ResponseReceiver
    ) -> bytes | LongPoll | None:
        if self.shown[0] != self._held.revision:
            self.follower.catch_up()
        # Not ``super()``, which would cost more than the comparison above.
        return self._answer_limited(self, request, body, address, receiver)

    def set_limits(self, limits: Limits) -> None:
        super().set_limits(limits)
        cls = WorkerMetadataService
        self._answer_limited = cls._answer_within_rate if self._rate.interval else MetadataService.answer

    def _answer_within_rate(
        self, request: MetadataRequest, body: bytes, address: str, receiver: ResponseReceiver
    ) -> bytes | LongPoll | None:
        """Answer a request, and count it together with those that other workers admitted."""
        vm_entry = self.vm_entries.get(address) or self._callers.entry_of(address)
        if vm_entry is None:
            return super().answer(request, body, address, receiver)
        self.rates.take_in(vm_entry)
        spent = vm_entry.spent_until
        answer = super().answer(request, body, address, receiver)
        if vm_entry.spent_until != spent:
            self.rates.publish(vm_entry, self._seconds())
        return answer

    def tick(self) -> None:
        self.follower.catch_up()
        super().tick()

    def _answer_rarely(
        self, request: MetadataRequest, body: bytes, address: str, vm_entry: VmEntry, receiver: ResponseReceiver
    ) -> bytes | LongPoll | None:
        needs_leader = request.is_post or not vm_entry.documents.is_enrolled
        if needs_leader and request.refusal is None and not self.has_leader():
            return self._refuse(error_responses.UNAVAILABLE, request, _RETRY)
        return super()._answer_rarely(request, body, address, vm_entry, receiver)

    def _refuse_enrolment(self, request: MetadataRequest) -> bytes:
        if not self.has_leader():
            return self._refuse(error_responses.UNAVAILABLE, request, _RETRY)
        return super()._refuse_enrolment(request)

    def _refuse_approval(self, request: MetadataRequest, vm: str, error: BaseException | None) -> bytes:
        if isinstance(error, Unavailable) and not self.has_leader():
            return self._refuse(error_responses.UNAVAILABLE, request, _RETRY)
        return super()._refuse_approval(request, vm, error)

    def _answer_long_poll(self, long_poll: LongPoll) -> bytes:
        self.follower.catch_up()
        return super()._answer_long_poll(long_poll)
