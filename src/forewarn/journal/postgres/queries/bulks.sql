-- name: begin_bulk
-- Begin to store a long entry.
INSERT INTO forewarn.bulks DEFAULT VALUES RETURNING number;

-- name: add_part
-- Store a part of a long entry; the last one may come again.
INSERT INTO forewarn.bulk_parts (bulk, part, content) VALUES (%(bulk)s, %(part)s, %(content)b)
ON CONFLICT (bulk, part) DO UPDATE SET content = excluded.content;

-- name: add_subjects
-- Store whom a long entry concerns.
COPY forewarn.subjects (subject, revision) FROM STDIN (FORMAT binary);
