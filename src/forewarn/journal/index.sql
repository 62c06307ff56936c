-- Which entries concern whom. Made from the journal, beside it, and made again where it is missing or damaged.

CREATE TABLE subjects (
    subject TEXT NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (subject, revision)
) STRICT, WITHOUT ROWID;

-- One row: all entries from the first kept one up to `revision` are in `subjects`; `checksum` is that entry's.
CREATE TABLE reach (
    revision INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
INSERT INTO reach VALUES (0, 0);
