"""What a handler changed in its own name; it is on the disk before anything is changed.

A thing found changed is the handler's own only if it stands here. So after a crash nothing is put back that somebody
else had changed, and nothing stays changed that was the handler's.
"""

from pathlib import Path

import msgspec

from forewarn.files import sync_directory, write_atomically

_decoder = msgspec.json.Decoder(dict[str, str])


class UndoLog:
    """The names of the things a handler changed, and how each was before."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "claims.json"

    def read(self) -> dict[str, str]:
        try:
            return _decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # Nothing is claimed on the strength of a file that nobody can read.
            raise OSError(f"{self._file} is damaged ({error}); look at what it names, then delete it") from None

    def write(self, claims: dict[str, str]) -> None:
        """Replace all claims, durably."""
        if claims == self.read():
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        with write_atomically(new) as file:
            file.write(msgspec.json.encode(claims))
        new.replace(self._file)
        sync_directory(self._directory)
