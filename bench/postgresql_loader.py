"""``python -m bench.postgresql_loader LOCATION``: print how many seconds loading took."""

import sys
from time import perf_counter

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.runtime import exempt_fleet_from_collection


def main() -> None:
    """Load a journal."""
    journal = PostgresJournal(DatabaseAddress.parse(sys.argv[1]))
    began = perf_counter()
    recovered = journal.load()
    exempt_fleet_from_collection()
    assert recovered.fleet.vms
    print(perf_counter() - began)
    journal.close()


if __name__ == "__main__":
    main()
