-- version 1
CREATE TABLE request (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    trace_id BLOB, span_id BLOB, span_rank INTEGER,
    at INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    started_ns INTEGER, ended_ns INTEGER, noted_ns INTEGER,
    service TEXT, workflow TEXT, framework TEXT, status TEXT,
    verdict TEXT, verdict_ns INTEGER, codes TEXT, reasons TEXT,
    question INTEGER, answer INTEGER, language TEXT, retriever TEXT,
    conversation_id TEXT, user_id TEXT,
    sample_rate REAL, judge_sample_rate REAL, selection TEXT, missing TEXT, metadata TEXT
);
CREATE INDEX request_at ON request (at, id);
CREATE INDEX request_trace ON request (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX request_question ON request (question) WHERE question IS NOT NULL;
CREATE INDEX request_answer ON request (answer) WHERE answer IS NOT NULL;
CREATE TABLE kind (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL, method TEXT NOT NULL, target TEXT NOT NULL, definition TEXT NOT NULL,
    direction TEXT NOT NULL, lowest REAL, highest REAL, judged INTEGER NOT NULL
);
CREATE TABLE score (
    request INTEGER NOT NULL, name TEXT NOT NULL,
    value REAL, status TEXT, label TEXT, told_ns INTEGER,
    kind INTEGER, turned REAL, lower REAL, upper REAL, error_type TEXT, details_ns INTEGER,
    judge_calls INTEGER, input_tokens INTEGER, output_tokens INTEGER, cache_hits INTEGER,
    PRIMARY KEY (request, name)
) WITHOUT ROWID;
CREATE TABLE evidence (
    request INTEGER NOT NULL, name TEXT NOT NULL, summary TEXT, explanation TEXT, items TEXT,
    PRIMARY KEY (request, name)
) WITHOUT ROWID;
CREATE TABLE text (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE chunk (
    trace_id BLOB NOT NULL, owner BLOB NOT NULL, span_id BLOB NOT NULL, rank INTEGER NOT NULL,
    at INTEGER NOT NULL, stored INTEGER NOT NULL, document TEXT, score REAL, text INTEGER,
    PRIMARY KEY (trace_id, owner, span_id, rank)
) WITHOUT ROWID;
CREATE INDEX chunk_stored ON chunk (stored);
CREATE INDEX chunk_text ON chunk (text) WHERE text IS NOT NULL;
CREATE TABLE loose (
    trace_id BLOB NOT NULL, owner BLOB NOT NULL, span_id BLOB NOT NULL, stored INTEGER NOT NULL,
    retriever TEXT, scores TEXT NOT NULL,
    PRIMARY KEY (trace_id, owner, span_id)
) WITHOUT ROWID;
CREATE TABLE dropped (
    series BLOB NOT NULL, slot INTEGER NOT NULL, service TEXT NOT NULL, reason TEXT NOT NULL,
    began INTEGER NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (series, slot)
) WITHOUT ROWID;
CREATE TABLE slot (slot INTEGER PRIMARY KEY, generation INTEGER NOT NULL);
CREATE TABLE rollup (
    hour INTEGER PRIMARY KEY, generation INTEGER NOT NULL, cells BLOB NOT NULL
);
CREATE TABLE archive (hour INTEGER PRIMARY KEY, cells BLOB NOT NULL);
CREATE TABLE segment (name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name, value)) WITHOUT ROWID;
CREATE TABLE workflow (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE score_name (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE revision (only INTEGER PRIMARY KEY CHECK (only = 1), number INTEGER NOT NULL);
INSERT INTO revision VALUES (1, 0);

-- version 2
ALTER TABLE request ADD COLUMN received INTEGER;
ALTER TABLE request ADD COLUMN alarms INTEGER;
ALTER TABLE request ADD COLUMN environment TEXT;
ALTER TABLE request ADD COLUMN judge_selection TEXT;
ALTER TABLE request ADD COLUMN segments TEXT;
CREATE INDEX request_received ON request (stored) WHERE received = 1;
ALTER TABLE kind ADD COLUMN judge TEXT NOT NULL DEFAULT '';
ALTER TABLE kind ADD COLUMN endpoint TEXT NOT NULL DEFAULT '';
ALTER TABLE score ADD COLUMN cost REAL;
CREATE TABLE segment_name (name TEXT PRIMARY KEY) WITHOUT ROWID;

-- version 3
CREATE TABLE telling (
    claim TEXT PRIMARY KEY, series TEXT NOT NULL, kind TEXT NOT NULL, at INTEGER NOT NULL,
    body TEXT NOT NULL, until INTEGER NOT NULL, told INTEGER
) WITHOUT ROWID;
CREATE INDEX telling_series ON telling (series, at);
CREATE INDEX telling_open ON telling (until) WHERE told IS NULL;

-- version 4
-- Hours in which two judges, or two formulas, had one sum are added up again: their requests are all there.
DELETE FROM rollup WHERE EXISTS (SELECT 1 FROM kind GROUP BY name HAVING count(*) > 1);

-- version 5
-- All names have one table. What has no place in it is `other`, also in hours that were added up.
CREATE TABLE name (sort TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (sort, name)) WITHOUT ROWID;
INSERT INTO name SELECT 'workflow', name FROM workflow;
INSERT INTO name SELECT 'score', name FROM score_name;
INSERT INTO name SELECT 'service', service FROM (
    SELECT service FROM request WHERE service <> '' GROUP BY service ORDER BY count(*) DESC, service LIMIT 64
) AS first;
DELETE FROM rollup WHERE EXISTS (
    SELECT 1 FROM request WHERE service <> '' AND service NOT IN (SELECT name FROM name WHERE sort = 'service')
);
UPDATE request SET service = 'other'
    WHERE service <> '' AND service NOT IN (SELECT name FROM name WHERE sort = 'service');
DROP TABLE workflow;
DROP TABLE score_name;

-- version 6
ALTER TABLE score ADD COLUMN asked_with REAL;

-- version 7
ALTER TABLE request ADD COLUMN stages TEXT;

-- version 8
-- When each version of anything was first seen in a service.
CREATE TABLE appearance (
    service TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (service, name, value)
) WITHOUT ROWID;

-- version 9
-- Where the chunks of a request are kept that no span told, so that a search finds it by them.
ALTER TABLE request ADD COLUMN home BLOB;
CREATE INDEX request_home ON request (home) WHERE home IS NOT NULL;
CREATE INDEX request_homeless ON request (id) WHERE home IS NULL;
CREATE INDEX request_conversation ON request (conversation_id) WHERE conversation_id IS NOT NULL;

-- version 10
-- What people decided of knowledge gaps; those without a row are open.
CREATE TABLE gap_state (id TEXT PRIMARY KEY, state TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;

-- version 11
-- Of five minutes that are over the sums are kept until those of their hour are.
ALTER TABLE slot ADD COLUMN summed INTEGER;
ALTER TABLE slot ADD COLUMN cells BLOB;

-- version 12
-- Sums are packed as lines; those of before are read as they are.
