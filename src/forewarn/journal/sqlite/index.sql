-- Which entries concern whom. Made from the journal, beside it, and made again where it is missing or damaged.

CREATE TABLE subjects (
    subject TEXT NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (subject, revision)
) STRICT, WITHOUT ROWID;

-- One row: the entries above `released` up to `revision` are in `subjects`; `checksum` is that of the last one.
-- Those up to `released` are about to be deleted, or are deleted already.
CREATE TABLE reach (
    released INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
INSERT INTO reach VALUES (0, 0, 0);
