-- name: examine_server
-- How durable the server's commits are, and its clock. Our own session may wait for more than the role does by default.
SELECT current_setting('server_version'), current_user::text, current_setting('fsync'),
    current_setting('full_page_writes'),
    (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
    current_setting('synchronous_standby_names'),
    CASE WHEN pg_has_role('pg_monitor', 'USAGE') THEN (
        SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')
    ) END,
    clock_timestamp();

-- name: lacking_rights
-- The tables that the role may not use as a node does.
SELECT relname::text FROM pg_class
WHERE relnamespace = 'forewarn'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND NOT (
        has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')
    )
ORDER BY relname;

-- name: owns_entries
-- Whether the role may make partitions.
SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'forewarn.entries'::regclass;

-- name: count_default
-- How many entries no partition of a month took.
SELECT count(*) FROM forewarn.entries_default;
