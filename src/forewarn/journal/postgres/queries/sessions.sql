-- name: set_up_session
-- Set what every session of ours relies on, whatever the server or the role has as defaults: a process that is stopped
-- within a transaction does not keep the others waiting, a statement whose client gave it up ends, and no commit is
-- acknowledged before it is on a disk and on the synchronous standbys. Servers on other systems cannot look for clients.
-- Returns which server answers.
SELECT set_config('idle_in_transaction_session_timeout', '5s', false),
    set_config('TimeZone', 'UTC', false),
    set_config('search_path', 'pg_catalog', false),
    set_config('default_transaction_isolation', 'read committed', false),
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
        THEN set_config('synchronous_commit', 'on', false) END,
    CASE WHEN current_setting('client_connection_check_interval') = '0' AND version() ~ 'linux'
        THEN set_config('client_connection_check_interval', '2s', false) END,
    pg_postmaster_start_time();

-- name: limit_locks
-- Do not wait longer than that for others.
SELECT set_config('lock_timeout', %(seconds)s::text || 's', false);

-- name: server_process
-- The process of the server that answers; a pooler between hides it.
SELECT pg_backend_pid();

-- name: listen
-- Receive what appends and released leases announce.
LISTEN forewarn;

-- name: read_formats
-- What the schema is, and which format of facts its entries may have.
SELECT schema_format, usable_from, fact_format FROM forewarn.cluster;

-- name: find_schema
-- Whether there is a schema of this name, and whether it holds the table by which it is recognised.
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'forewarn'),
    to_regclass('forewarn.cluster') IS NOT NULL AND to_regclass('forewarn.head') IS NOT NULL;
