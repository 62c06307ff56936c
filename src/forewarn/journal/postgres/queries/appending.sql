-- name: append
-- Add entries and their commands, and wake the followers. One statement, so that all of it happens or
-- nothing. It adds nothing, and returns no row, unless the head is as expected and the lease has not ended.
WITH moved AS (
    UPDATE forewarn.head
    SET revision = %(last_revision)s, hash = %(last_hash)b
    WHERE revision = %(revision)s AND hash = %(hash)b
        AND term = %(term)s AND session = %(session)s AND lease_until > clock_timestamp()
    RETURNING head.revision
), batch AS (
    SELECT %(revision)s::bigint + number AS revision, command, checksum, hash, bulk, body,
        coalesce(to_timestamp(time), clock_timestamp()) AS recorded_at
    FROM unnest(%(commands)b::text[], %(checksums)b::bigint[], %(hashes)b::bytea[], %(bulks)b::bigint[],
        %(bodies)b::bytea[], %(times)b::float8[])
        WITH ORDINALITY AS row (command, checksum, hash, bulk, body, time, number)
    WHERE EXISTS (SELECT FROM moved)
), added_entries AS (
    INSERT INTO forewarn.entries (revision, recorded_at, checksum, hash, bulk, body)
    SELECT revision, recorded_at, checksum, hash, bulk, body FROM batch
), added_commands AS (
    INSERT INTO forewarn.commands (id, revision) SELECT command, revision FROM batch
)
SELECT pg_notify('forewarn', revision::text) FROM moved;

-- name: read_head
-- The last entry, and who may append the next.
SELECT revision, hash, term, session, lease_until > clock_timestamp() FROM forewarn.head;

-- name: fence
-- Let an append of unknown outcome, which may still be on its way, find another session than its own. The row's lock
-- waits for one that has begun; the commit waits until all before it is replicated.
UPDATE forewarn.head SET session = session + 1 WHERE term = %(term)s RETURNING session;
