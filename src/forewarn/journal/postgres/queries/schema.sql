-- name: lock_schema
-- Let one process at a time create or upgrade the schema; until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtext('forewarn'));

-- name: describe_database
-- How the database encodes text, its name, and that of the role.
SELECT current_setting('server_encoding'), current_database(), current_user;

-- name: found_cluster
-- Note what the schema is, once.
INSERT INTO forewarn.cluster (schema_format, usable_from, fact_format, id)
VALUES (%(schema_format)s, %(usable_from)s, %(fact_format)s, gen_random_uuid()::text);

-- name: note_format
-- Note that the schema was upgraded.
UPDATE forewarn.cluster SET schema_format = %(schema_format)s, usable_from = %(usable_from)s;

-- name: read_partitions
-- The partitions of the entries: name, and where its month begins and ends; null for the default one.
SELECT name, bound[1]::timestamptz, bound[2]::timestamptz
FROM (
    SELECT child.relname AS name,
        regexp_match(pg_get_expr(child.relpartbound, child.oid), 'FROM \(''(.+)''\) TO \(''(.+)''\)') AS bound
    FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
    WHERE inhparent = 'forewarn.entries'::regclass
) AS partition
ORDER BY name;

-- name: is_default_used
-- Whether the default partition has entries of a month, so that the month cannot have a partition of its own.
SELECT EXISTS (
    SELECT FROM forewarn.entries_default WHERE recorded_at >= %(begin)s AND recorded_at < %(end)s
);

-- name: read_clock
-- The database's clock.
SELECT clock_timestamp();

-- name: read_cluster_id
-- The id of the cluster.
SELECT id FROM forewarn.cluster;

-- name: join_cluster
-- Note the authority of a node, unless all that are noted are others; return a row where it was noted.
UPDATE forewarn.cluster SET authorities = %(fingerprints)s::text[]
WHERE authorities = '{}' OR authorities && %(fingerprints)s::text[]
RETURNING id;
