"""What the authors of journals and drivers test theirs with: the published contract suites."""
