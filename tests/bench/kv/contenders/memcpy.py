"""One process copies the same buffers: what memory itself allows."""

from __future__ import annotations

import numpy as np
from tests.bench.kv.contender import Contender
from tests.bench.kv.workload import Job

from pdserve.transport.segment import COPY_ENVIRONMENT


class Copier:
    def __init__(self, job: Job, whole: bool) -> None:
        self._job = job
        self._whole = whole
        self._source, self._target = (np.frombuffer(memory.view, np.uint8) for memory in (job.source, job.target))

    def round(self, number: int) -> None:
        if self._whole:
            self._target[: self._job.bytes] = self._source[: self._job.bytes]
            return
        for _, spans in self._job.pieces(number):
            for offset, size in spans:
                self._target[offset : offset + size] = self._source[offset : offset + size]

    def close(self) -> None:
        return


CONTENDERS = [
    Contender("memcpy", None, lambda job, address: Copier(job, whole=False), note="K and V of each frame, as pushed"),
    Contender("memcpy, one call", None, lambda job, address: Copier(job, whole=True), note="the whole KV at once"),
    Contender(
        "memcpy, non-temporal",
        None,
        lambda job, address: Copier(job, whole=False),
        environment=COPY_ENVIRONMENT,
        note="as the first, with what pdctl sets for a prefill that writes into shared memory",
    ),
]
