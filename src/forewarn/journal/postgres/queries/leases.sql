-- name: beat
-- Note that a node is alive, and renew its lease or take a free one: one that nobody holds, or that ended by this clock
-- and by the time that the node expects it to tell; null: it does not know. It changes nothing, and returns no row, where
-- another process of that name was heard of less than the time of a lease ago; what lies further in the future was
-- noted by the clock of another server. A new term is at least the time in seconds, so that none comes again where the
-- database was restored, copied, or lost its last commits.
WITH led AS (
    UPDATE forewarn.head
    SET term = CASE
            WHEN process = %(process)s AND lease_until > clock_timestamp() THEN term
            ELSE greatest(term + 1, extract(epoch FROM clock_timestamp())::bigint)
        END,
        leader = %(name)s,
        process = %(process)s,
        lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
    WHERE %(can_lead)s
        AND (
            process = %(process)s OR leader = ''
            OR lease_until <= clock_timestamp() AND lease_until <= to_timestamp(%(ended_by)s::float8)
        )
        AND NOT EXISTS (
            SELECT FROM forewarn.nodes
            WHERE nodes.name = %(name)s AND nodes.process <> %(process)s AND NOT has_left
                AND heard_at > clock_timestamp() - make_interval(secs => %(lease)s)
                AND heard_at <= clock_timestamp() + make_interval(secs => %(lease)s)
        )
)
INSERT INTO forewarn.nodes AS node (name, process, address, release, format, revision, can_lead, heard_at)
VALUES (%(name)s, %(process)s, %(address)s, %(release)s, %(format)s, %(revision)s, %(can_lead)s, clock_timestamp())
ON CONFLICT (name) DO UPDATE
SET process = excluded.process, address = excluded.address, release = excluded.release, format = excluded.format,
    revision = excluded.revision, can_lead = excluded.can_lead, heard_at = excluded.heard_at, has_left = false
WHERE node.process = excluded.process OR node.has_left
    OR node.heard_at <= clock_timestamp() - make_interval(secs => %(lease)s)
    OR node.heard_at > clock_timestamp() + make_interval(secs => %(lease)s)
RETURNING name;

-- name: shorten_lease
-- Let a lease end that lasts longer than any: it was taken by the clock of another server. A leader that lives renews
-- it before that.
UPDATE forewarn.head SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
WHERE lease_until > clock_timestamp() + make_interval(secs => %(longest)s);

-- name: raise_format
-- Raise the format of facts to what every node can read; nodes that were heard of recently count, also if they left.
UPDATE forewarn.cluster SET fact_format = found.format
FROM (
    SELECT min(format) AS format FROM forewarn.nodes WHERE heard_at > clock_timestamp() - interval '10 minutes'
) AS found
WHERE found.format > fact_format;

-- name: read_state
-- The lease, the last revision, the clock, and the format of facts.
SELECT term, leader, process, extract(epoch FROM lease_until - clock_timestamp())::float8,
    revision, clock_timestamp(), fact_format
FROM forewarn.head, forewarn.cluster;

-- name: read_members
-- The nodes that were heard of recently.
SELECT name, process, address, release, format, revision, can_lead,
    extract(epoch FROM clock_timestamp() - heard_at)::float8
FROM forewarn.nodes
WHERE heard_at > clock_timestamp() - interval '10 minutes' AND NOT has_left
ORDER BY name;

-- name: release
-- End a lease, and wake the others.
WITH released AS (
    UPDATE forewarn.head SET lease_until = 'epoch', leader = '', process = ''
    WHERE term = %(term)s AND leader = %(node)s
    RETURNING term
)
SELECT pg_notify('forewarn', 'released') FROM released;

-- name: leave
-- Forget a process.
UPDATE forewarn.nodes SET has_left = true WHERE name = %(name)s AND process = %(process)s;
