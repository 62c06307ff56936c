-- name: begin_at
-- Let an empty journal begin behind a revision: the entries before it were deleted where it comes from.
UPDATE forewarn.head SET revision = %(revision)s
WHERE NOT EXISTS (SELECT FROM forewarn.entries);

-- name: read_hash
-- The hash of an entry.
SELECT hash FROM forewarn.entries WHERE revision = %(revision)s;
