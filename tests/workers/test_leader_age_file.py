"""The file that tells how old what a worker shows is."""

from pathlib import Path

from forewarn.workers.leader_age_file import LeaderAgeFile


def test_the_age_is_a_metric_while_there_is_no_leader(tmp_path: Path) -> None:
    """In the text format of Prometheus, replaced at once, and gone with the leader's return."""
    file = LeaderAgeFile(tmp_path, 1)
    file.write(1.0)
    file.write(2.25)
    assert file.path.read_text().splitlines()[-1] == 'forewarn_worker_leader_age_seconds{worker="2"} 2.2'
    assert [each.name for each in tmp_path.iterdir()] == ["worker-2.prom"]
    file.remove()
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_worker_that_was_killed_is_removed(tmp_path: Path) -> None:
    """By the next worker of the same number."""
    LeaderAgeFile(tmp_path, 0).write(5.0)
    LeaderAgeFile(tmp_path, 0).remove()

    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    """VMs are answered all the same."""
    LeaderAgeFile(tmp_path / "gone", 0).write(5.0)
