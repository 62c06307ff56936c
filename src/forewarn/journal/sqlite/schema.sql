-- The journal itself. Long bodies have a table of their own (long_entries.py), which is made with the first of them.
-- The application id and the format (user_version) are set when the file is made.

CREATE TABLE entries (
    revision INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL,  -- CRC-32 of the body, begun with the revision
    body BLOB NOT NULL          -- the entry as JSON
) STRICT;
