-- The tables of one journal, in a schema of its own. Run when they are missing.
CREATE TABLE IF NOT EXISTS lease (
    id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    format smallint NOT NULL,
    tag integer NOT NULL,
    created_us bigint NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    holder text NOT NULL DEFAULT '',
    address text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL DEFAULT '-infinity'
);

-- One row a batch. A carry segment holds the survivors of batches, at `positions`.
CREATE TABLE IF NOT EXISTS batch (
    segment bigint NOT NULL,
    first_position bigint NOT NULL,
    count integer NOT NULL,
    positions bigint[],
    frame bytea NOT NULL,
    PRIMARY KEY (segment, first_position)
);
-- Bodies are compressed by their producers or not at all; the server would compress for nothing.
ALTER TABLE batch ALTER COLUMN frame SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS batch_by_position ON batch (first_position) WHERE positions IS NULL;

CREATE TABLE IF NOT EXISTS snapshot (
    position bigint NOT NULL,
    part integer NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (position, part)
);
ALTER TABLE snapshot ALTER COLUMN content SET STORAGE EXTERNAL;

-- What brokers leave for each other beside the log.
CREATE TABLE IF NOT EXISTS note (
    key text PRIMARY KEY,
    content bytea NOT NULL,
    written_at timestamptz NOT NULL
);
