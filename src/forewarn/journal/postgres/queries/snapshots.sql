-- name: lock_snapshots
-- Let one process at a time take snapshots; until the session ends.
SELECT pg_try_advisory_lock(hashtext('forewarn snapshots'));

-- name: list_snapshots
-- The verified snapshots, newest first, each with the present hash of its last entry; null if that was deleted.
SELECT snapshots.revision, snapshots.hash, fact_format, chunks, entries.hash
FROM forewarn.snapshots LEFT JOIN forewarn.entries ON entries.revision = snapshots.revision
WHERE is_verified
ORDER BY snapshots.revision DESC;

-- name: snapshot_age
-- How many seconds old the newest snapshot is; where there is none, the first entry.
SELECT extract(epoch FROM clock_timestamp() - coalesce(
    (SELECT max(taken_at) FROM forewarn.snapshots WHERE is_verified),
    (SELECT recorded_at FROM forewarn.entries ORDER BY revision LIMIT 1),
    clock_timestamp()
))::float8;

-- name: read_chunks
-- Some chunks of a snapshot, in order.
SELECT number, checksum, content FROM forewarn.snapshot_chunks
WHERE revision = %(revision)s AND number > %(after)s ORDER BY number LIMIT %(limit)s;

-- name: begin_snapshot
-- Begin a snapshot that counts for nothing yet.
INSERT INTO forewarn.snapshots (revision, hash, fact_format)
VALUES (%(revision)s, %(hash)b, %(fact_format)s);

-- name: add_chunk
-- Add a chunk to a snapshot.
INSERT INTO forewarn.snapshot_chunks (revision, number, checksum, content)
VALUES (%(revision)s, %(number)s, %(checksum)s, %(content)b);

-- name: publish_snapshot
-- Let a snapshot count that was read back equal.
UPDATE forewarn.snapshots SET is_verified = true, chunks = %(chunks)s WHERE revision = %(revision)s;

-- name: delete_snapshots
-- Delete all snapshots but some, with their chunks.
DELETE FROM forewarn.snapshots WHERE revision <> ALL (%(kept)s::bigint[]);

-- name: index_entries
-- Note whom entries concern, in one step with how far that goes; nothing happens where another process was first.
WITH moved AS (
    UPDATE forewarn.cluster SET indexed = %(last)s WHERE indexed <= %(after)s RETURNING 1
)
INSERT INTO forewarn.subjects (subject, revision)
SELECT * FROM unnest(%(subjects)s::text[], %(revisions)s::bigint[]) WHERE EXISTS (SELECT FROM moved)
ON CONFLICT DO NOTHING;
