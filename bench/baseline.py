"""An earlier version of the service, to be measured in the same run as this one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

BASELINE = "32e4f3323bb14c6aefea4e43ae6b6380264183ac"
"""The last commit before the write path was made faster."""
_ROOT = Path(__file__).parents[1]


def environment(directory: Path, commit: str = BASELINE) -> dict[str, str]:
    """Extract the baseline's source into a directory; return an environment in which Python imports it."""
    archive = directory / "baseline.tar"
    command = ["git", "-C", str(_ROOT), "archive", f"--output={archive}", commit, "src"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"The baseline {commit[:7]} cannot be extracted: {done.stderr.strip()}\n"
            "It needs a clone with the whole history: git fetch --unshallow"
        )
    shutil.unpack_archive(archive, directory / "baseline", filter="data")
    source = directory / "baseline" / "src"
    found = os.environ | {"PYTHONPATH": str(source)}
    where = [sys.executable, "-c", "import forewarn; print(forewarn.__file__)"]
    imported = subprocess.run(where, env=found, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(imported).is_relative_to(source):
        raise SystemExit(f"The baseline is not what Python imports: {imported} instead of {source}")
    return found
