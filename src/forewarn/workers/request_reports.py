"""Reports of a worker to its leader: who asked, who was shown what, and what it counted."""

from collections.abc import Callable

from forewarn.metadata.request_records import RequestRecords
from forewarn.metadata.service import MetadataService
from forewarn.workers.messages import WorkerReport


class RequestReports:
    """Makes the reports. The leader records what they say, as it does with requests of its own."""

    def __init__(
        self,
        records: RequestRecords,
        service: MetadataService,
        leader_age: Callable[[], float],
    ) -> None:
        self._records = records
        self._service = service
        self._leader_age = leader_age

    def next(self) -> WorkerReport:
        counts = [count for _, _, count in self._service.documents()]
        return WorkerReport(
            asked=self._records.take_asked(),
            fetches=self._records.take_fetches(),
            documents=tuple(zip(counts[::2], counts[1::2], strict=True)),
            refusals=dict(self._service.common_headers.refusals),
            long_polls=len(self._service.long_polls),
            leader_age=self._leader_age(),
            delays=self._service.delays.counts,
        )
