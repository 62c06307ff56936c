"""``python -m bench.postgresql_follower LOCATION AFTER COUNT``: print when each entry was read."""

import sys
from time import perf_counter

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal


def main() -> None:
    """Follow a journal."""
    location, after, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    journal = PostgresJournal(DatabaseAddress.parse(location))
    journal.load()
    journal.follow(after, timeout=0.5)
    print("ready", flush=True)
    times: list[float] = []
    revision = after
    while revision < after + count:
        if journal.follow(revision, timeout=5):
            for entry in journal.entries(revision):
                times.append(perf_counter())
                revision = entry.revision
    journal.close()
    for each in times:
        print(each)


if __name__ == "__main__":
    main()
