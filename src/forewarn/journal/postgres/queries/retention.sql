-- name: read_released
-- The revision up to which entries may be deleted.
SELECT released FROM forewarn.cluster;

-- name: forget_subjects
-- Take entries out of the index of whom they concern; those of a long entry have the number of its bulk.
DELETE FROM forewarn.subjects
USING unnest(%(subjects)s::text[], %(revisions)s::bigint[]) AS gone (subject, revision)
    JOIN forewarn.entries ON entries.revision = gone.revision
WHERE subjects.subject = gone.subject
    AND subjects.revision = CASE WHEN bulk > 0 AND subjects.revision < 0 THEN -bulk ELSE gone.revision END;

-- name: release_entries
-- Take the commands of entries out of the index, and note that the entries may be deleted.
WITH gone_commands AS (
    DELETE FROM forewarn.commands WHERE id = ANY (%(commands)s::text[]) AND revision <= %(released)s
)
UPDATE forewarn.cluster SET released = greatest(released, %(released)s);

-- name: bounds_of_partition
-- The first and the last revision that were recorded within a time; null if there is none.
SELECT min(revision), max(revision) FROM forewarn.entries
WHERE recorded_at >= %(begin)s AND recorded_at < %(end)s;

-- name: first_in_default
-- The first revision of those that no partition of a month took; null if there is none.
SELECT min(revision) FROM forewarn.entries_default;

-- name: delete_bulks
-- Delete the parts of the long entries that were recorded within a time.
WITH gone AS (
    SELECT bulk FROM forewarn.entries WHERE bulk > 0 AND recorded_at >= %(begin)s AND recorded_at < %(end)s
), gone_parts AS (
    DELETE FROM forewarn.bulk_parts USING gone WHERE bulk_parts.bulk = gone.bulk
)
DELETE FROM forewarn.bulks USING gone WHERE bulks.number = gone.bulk;

-- name: wait_briefly
-- Give up soon when another session holds what is to be locked: appends would wait behind.
SET LOCAL lock_timeout = '500ms';

-- name: delete_from_default
-- Delete some of the oldest entries that no partition of a month took; return how many.
WITH gone AS (
    SELECT revision FROM forewarn.entries_default WHERE revision <= %(last)s ORDER BY revision LIMIT %(limit)s
), deleted AS (
    DELETE FROM forewarn.entries_default USING gone WHERE entries_default.revision = gone.revision RETURNING 1
)
SELECT count(*) FROM deleted;

-- name: delete_oldest
-- Delete some of the oldest entries, wherever they are; return how many.
WITH gone AS (
    SELECT revision, recorded_at FROM forewarn.entries
    WHERE revision <= %(last)s ORDER BY revision LIMIT %(limit)s
), deleted AS (
    DELETE FROM forewarn.entries USING gone
    WHERE entries.revision = gone.revision AND entries.recorded_at = gone.recorded_at
    RETURNING 1
)
SELECT count(*) FROM deleted;

-- name: unused_bulks
-- The bulks of appends that never came; those of the last day may still come.
DELETE FROM forewarn.bulks
WHERE begun_at < clock_timestamp() - interval '1 day'
    AND NOT EXISTS (SELECT FROM forewarn.entries WHERE bulk = bulks.number AND bulk > 0)
RETURNING number;

-- name: delete_unused_parts
-- Delete what was stored for appends that never came.
WITH gone_parts AS (
    DELETE FROM forewarn.bulk_parts WHERE bulk = ANY (%(bulks)s::bigint[])
)
DELETE FROM forewarn.subjects WHERE revision < 0 AND -revision = ANY (%(bulks)s::bigint[]);
