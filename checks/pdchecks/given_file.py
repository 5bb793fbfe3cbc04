"""A file that a person names, or keeps beside an inventory: regular, of a bounded size, read without waiting."""

import os
import stat
from pathlib import Path


def read_given(path: Path, most: int) -> bytes:
    """Its content; a link is followed.

    Raises:
        OSError: as of `open`.
        ValueError: it is a folder, a pipe or a device, or larger than `most` bytes.
    """
    # Not blocking: a FIFO without a writer would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"larger than {most} bytes")
    return content
