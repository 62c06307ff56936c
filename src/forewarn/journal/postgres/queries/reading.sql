-- name: read_entries
-- The entries from a revision on. The first one, if it is kept, is known to the reader: only its hash is needed.
SELECT revision, checksum, hash, bulk, CASE WHEN revision > %(after)s THEN body END
FROM forewarn.entries WHERE revision >= %(after)s ORDER BY revision LIMIT %(limit)s;

-- name: see_one_state
-- Let the statements of a transaction see one state: an entry and its parts, whatever is deleted meanwhile.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;

-- name: read_parts
-- The parts of a long body, in order.
SELECT content FROM forewarn.bulk_parts WHERE bulk = %(bulk)s ORDER BY part;

-- name: first_revision
-- The first kept revision; 1 where there is none.
SELECT coalesce(min(revision), 1) FROM forewarn.entries;

-- name: kept_bounds
-- The first and the last kept revision; 1 and 0 where there is none. One statement, so that both are of one state.
SELECT coalesce((SELECT min(revision) FROM forewarn.entries), 1),
    coalesce((SELECT max(revision) FROM forewarn.entries), 0);

-- name: last_revision
-- The revision of the last entry.
SELECT revision FROM forewarn.head;

-- name: read_indexed
-- The revision up to which the table of subjects has the entries.
SELECT indexed FROM forewarn.cluster;

-- name: newest_about
-- The newest entries that concern a subject, between two revisions.
SELECT entries.revision, checksum, hash, bulk, body
FROM (
    SELECT revision FROM (
        (SELECT revision FROM forewarn.subjects WHERE subject = %(subject)s
            AND revision > %(after)s AND revision < %(before)s
            ORDER BY revision DESC LIMIT %(limit)s)
        UNION
        SELECT revision FROM unnest(%(newest)s::bigint[]) AS revision
        WHERE revision > %(after)s AND revision < %(before)s
        UNION
        SELECT revision FROM forewarn.commands WHERE id = %(command)s
            AND revision > %(after)s AND revision < %(before)s
        UNION
        SELECT entries.revision FROM forewarn.subjects JOIN forewarn.entries ON bulk = -subjects.revision AND bulk > 0
        WHERE subject = %(subject)s AND subjects.revision < 0
            AND entries.revision > %(after)s AND entries.revision < %(before)s
    ) AS every ORDER BY revision DESC LIMIT %(limit)s
) AS chosen
JOIN forewarn.entries USING (revision)
ORDER BY revision DESC;

-- name: oldest_about
-- The oldest entries that concern a subject, between two revisions.
SELECT entries.revision, checksum, hash, bulk, body
FROM (
    SELECT revision FROM (
        (SELECT revision FROM forewarn.subjects WHERE subject = %(subject)s
            AND revision > %(after)s AND revision < %(before)s
            ORDER BY revision LIMIT %(limit)s)
        UNION
        SELECT revision FROM unnest(%(newest)s::bigint[]) AS revision
        WHERE revision > %(after)s AND revision < %(before)s
        UNION
        SELECT revision FROM forewarn.commands WHERE id = %(command)s
            AND revision > %(after)s AND revision < %(before)s
        UNION
        SELECT entries.revision FROM forewarn.subjects JOIN forewarn.entries ON bulk = -subjects.revision AND bulk > 0
        WHERE subject = %(subject)s AND subjects.revision < 0
            AND entries.revision > %(after)s AND entries.revision < %(before)s
    ) AS every ORDER BY revision LIMIT %(limit)s
) AS chosen
JOIN forewarn.entries USING (revision)
ORDER BY revision;
