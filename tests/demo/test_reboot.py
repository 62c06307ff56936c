"""The script that reboots a host of the demo: whatever still runs there ends, and is counted."""

import shutil
import subprocess
from pathlib import Path

from demo import site

SCRIPT = Path(site.__file__).with_name("reboot.sh")


def test_machines_on_a_host_end_with_it_and_nothing_else_does(tmp_path: Path) -> None:
    """A machine is known by the file that it names; a stale file may hold the number of another process."""
    script, host = tmp_path / "reboot.sh", tmp_path / "h1"
    shutil.copy(SCRIPT, script)
    host.mkdir()
    subprocess.run([script, "h1", "reboot"], check=True)
    # Two commands, or the shell gives way to the first, and the name is gone.
    with (
        subprocess.Popen(["sh", "-c", "read line; true", str(host / "web-0.pid")], stdin=subprocess.PIPE) as machine,
        subprocess.Popen(["sh", "-c", "read line; true"], stdin=subprocess.PIPE) as other,
    ):
        (host / "web-0.pid").write_text(str(machine.pid))
        (host / "web-1.pid").write_text(str(other.pid))
        subprocess.run([script, "h1", "reboot"], check=True)
        assert machine.wait(60) == -9
        assert other.poll() is None
    assert (host / "reboots").read_text().split() == ["0", "1"]
