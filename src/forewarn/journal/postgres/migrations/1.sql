-- The journal in PostgreSQL, format 1. All tables stand in the schema `forewarn` and belong to one cluster.

CREATE SCHEMA forewarn;

-- One row: what this schema is. Releases that know `usable_from` or a later format can use it. `fact_format` is the
-- format of facts that every node can read; it never falls. `authorities` are the fingerprints of the authority that
-- signed the nodes' certificates; none before the first node with one. Entries up to `indexed` are in `subjects`; those up to
-- `released` have left it and `commands`, and may be deleted.
CREATE TABLE forewarn.cluster (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    schema_format integer NOT NULL,
    usable_from integer NOT NULL,
    fact_format integer NOT NULL,
    id text NOT NULL,
    authorities text[] NOT NULL DEFAULT '{}',
    indexed bigint NOT NULL DEFAULT 0,
    released bigint NOT NULL DEFAULT 0
);

-- One row: the last entry, and who may append the next. Appends and the lease lock this row, so that they come one
-- after another. `session` rises when the leader gives up an append of unknown outcome.
CREATE TABLE forewarn.head (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    revision bigint NOT NULL DEFAULT 0,
    hash bytea NOT NULL DEFAULT '',
    term bigint NOT NULL DEFAULT 0,
    session bigint NOT NULL DEFAULT 0,
    leader text NOT NULL DEFAULT '',
    process text NOT NULL DEFAULT '',
    lease_until timestamptz NOT NULL DEFAULT 'epoch'
) WITH (fillfactor = 10);
INSERT INTO forewarn.head DEFAULT VALUES;

-- The entries. `hash` is the SHA-256 of the predecessor's hash and this body. A long body has its beginning here, and
-- the rest in the parts of a bulk. Partitions are months; what no partition takes goes to the default one.
CREATE TABLE forewarn.entries (
    revision bigint NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    checksum bigint NOT NULL,
    hash bytea NOT NULL,
    bulk bigint NOT NULL DEFAULT 0,
    body bytea NOT NULL,
    PRIMARY KEY (revision, recorded_at)
) PARTITION BY RANGE (recorded_at);
CREATE INDEX entries_in_parts ON forewarn.entries (bulk) WHERE bulk > 0;
CREATE TABLE forewarn.entries_default PARTITION OF forewarn.entries DEFAULT;

-- The commands of the kept entries: none is recorded twice.
CREATE TABLE forewarn.commands (
    id text PRIMARY KEY,
    revision bigint NOT NULL
);

-- Which entries concern whom, up to the revision `indexed`. A negative revision is the number of a bulk.
CREATE TABLE forewarn.subjects (
    subject text NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (subject, revision)
);

-- Bulks: what long entries have in parts. Parts and subjects are stored before the entry is appended, which then names
-- the bulk; one that no entry names belongs to an append that never came.
CREATE TABLE forewarn.bulks (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE forewarn.bulk_parts (
    bulk bigint NOT NULL,
    part integer NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (bulk, part)
);
ALTER TABLE forewarn.bulk_parts ALTER COLUMN content SET STORAGE EXTERNAL;

-- The fleet as it stood at a revision, in chunks. One that is not verified counts for nothing.
CREATE TABLE forewarn.snapshots (
    revision bigint PRIMARY KEY,
    hash bytea NOT NULL,
    fact_format integer NOT NULL,
    chunks integer NOT NULL DEFAULT 0,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    is_verified boolean NOT NULL DEFAULT false
);
CREATE TABLE forewarn.snapshot_chunks (
    revision bigint NOT NULL REFERENCES forewarn.snapshots ON DELETE CASCADE,
    number integer NOT NULL,
    checksum bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (revision, number)
);
ALTER TABLE forewarn.snapshot_chunks ALTER COLUMN content SET STORAGE EXTERNAL;

-- The processes that use this journal, as their last heartbeats described them.
CREATE TABLE forewarn.nodes (
    name text PRIMARY KEY,
    process text NOT NULL,
    address text NOT NULL,
    release text NOT NULL,
    format integer NOT NULL,
    revision bigint NOT NULL,
    can_lead boolean NOT NULL,
    heard_at timestamptz NOT NULL,
    has_left boolean NOT NULL DEFAULT false
);
