"""Faults of workers: when a commit is shown, who may answer, and who is replaced."""

from planted.fault import Fault

_TOGETHER = "What a VM was shown by one worker, every other one shows too."

FAULTS = (
    Fault(
        name="A commit is shown before every worker has applied it",
        promise=_TOGETHER,
        file="src/forewarn/workers/publication.py",
        old="        if behind:",
        new="        if behind and not self._members:",
        found_by=("tests/workers/test_publication.py",),
    ),
    Fault(
        name="A worker answers without a look at the shown revision",
        promise=_TOGETHER,
        file="src/forewarn/workers/metadata_service.py",
        old="        if self.shown[0] != self._held.revision:",
        new="        if False:",
        found_by=("tests/workers/test_metadata_service.py",),
    ),
    Fault(
        name="A worker that joins answers before it holds what was shown",
        promise=_TOGETHER,
        file="src/forewarn/workers/pool.py",
        old="            and worker.known >= worker.target",
        new="            and worker.known >= 0",
        found_by=("tests/workers/test_pool.py",),
    ),
    Fault(
        name="A worker answers that has loaded more than is shown",
        promise=_TOGETHER,
        file="src/forewarn/workers/pool.py",
        old="            and self.publication.shown >= worker.loaded",
        new="            and self.publication.shown >= 0",
        found_by=("tests/workers/test_pool.py",),
    ),
    Fault(
        name="Workers of an earlier leader answer beside those of the next",
        promise=_TOGETHER,
        file="src/forewarn/workers/pool.py",
        old="        await self._end_others(self._is_own)",
        new="        await asyncio.sleep(0)",
        found_by=("tests/workers/test_pool.py",),
    ),
    Fault(
        name="A worker that hangs while nothing is committed stays",
        promise="A worker that ends or hangs is replaced.",
        file="src/forewarn/workers/pool.py",
        old="now - worker.heard_at >= (limit := self._longest_silence(worker)):",
        new="now - worker.heard_at >= (limit := 1e9):",
        found_by=("tests/workers/test_pool.py",),
    ),
    Fault(
        name="A worker that is killed for silence is not waited for",
        promise=_TOGETHER,
        file="src/forewarn/workers/publication.py",
        old='                self._awaited[id(member)] = float("inf")  # until it is gone',
        new="                self._settle(member)",
        found_by=("tests/workers/test_publication.py",),
    ),
    Fault(
        name="Requests of all groups are recorded in one entry",
        promise="No entry takes so long to take in that workers are killed for it.",
        file="src/forewarn/metadata/request_records.py",
        old="_RECORDS_IN_AN_ENTRY = 2_000",
        new="_RECORDS_IN_AN_ENTRY = 2_000_000",
        found_by=("tests/metadata/test_request_records.py",),
    ),
)
