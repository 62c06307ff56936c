"""Files that are there whole, even after a power failure, or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that is on the disk when the block ends, and gone when it fails."""
    try:
        with path.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    if os.name == "nt":
        return  # Windows cannot open directories; it writes names through by itself
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
