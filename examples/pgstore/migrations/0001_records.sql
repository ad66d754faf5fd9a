-- The records of the planner: text keys, opaque values, and a revision for compare-and-swap.
--
-- Keys are bytes and not text: they hold names that users chose, any of them, and are ordered byte by byte whatever the collation of the
-- database. The view below shows them as text.
CREATE SEQUENCE tranche_revision; -- one for all keys, without cache: what is taken later is greater, in whatever session

CREATE TABLE tranche_record (
    key        bytea PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 1024),
    value      bytea NOT NULL,
    revision   bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80); -- records are replaced all the time; no index holds what changes

CREATE VIEW tranche_record_text AS
    SELECT convert_from(key, 'UTF8') AS key, convert_from(value, 'UTF8')::jsonb AS value, revision, updated_at FROM tranche_record;
