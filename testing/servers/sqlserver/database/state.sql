-- What the capture job goes by; one row per capture instance.
CREATE TABLE ss.captures (instance text PRIMARY KEY, source oid NOT NULL, change_table oid NOT NULL,
    start_lsn bytea NOT NULL, net bool NOT NULL,
    role text, index_name text, created timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE ss.captured_columns (instance text REFERENCES ss.captures ON UPDATE CASCADE ON DELETE CASCADE,
    name text, number int, ordinal int, computed bool, gone bool NOT NULL DEFAULT false,
    PRIMARY KEY (instance, ordinal));
CREATE TABLE ss.jobs (kind text PRIMARY KEY, pollinginterval int8 NOT NULL DEFAULT 5,
    maxtrans int NOT NULL DEFAULT 500, maxscans int NOT NULL DEFAULT 10, retention int8 NOT NULL DEFAULT 4320,
    threshold int8 NOT NULL DEFAULT 5000, running bool NOT NULL DEFAULT true);
CREATE TABLE ss.habits (name text PRIMARY KEY);
GRANT SELECT ON ss.habits TO PUBLIC;
CREATE TABLE ss.done (lsn pg_lsn NOT NULL);
INSERT INTO ss.done VALUES ('0/0');

-- The types, as sys.types names them.

CREATE TABLE ss.kinds (type oid PRIMARY KEY, name text, system_type_id int, user_type_id int, size int, digits int,
    fraction int);
CREATE TABLE ss.alias_types (number int GENERATED ALWAYS AS IDENTITY (START WITH 257) PRIMARY KEY, schema text,
    name text, type text, required bool, base oid, modifier int);
INSERT INTO ss.kinds SELECT k.type::regtype, k.name, k.system, coalesce(k.own, k.system), k.size, k.digits,
    k.fraction FROM (VALUES
    ('int2', 'smallint', 52, NULL::int, 2, 5, 0), ('int4', 'int', 56, NULL, 4, 10, 0), ('int8', 'bigint', 127, NULL,
        8, 19, 0),
    ('ss.tinyint', 'tinyint', 48, NULL, 1, 3, 0), ('ss.bit', 'bit', 104, NULL, 1, 1, 0), ('numeric', 'decimal', 106,
        NULL, 17, 38, 0),
    ('float4', 'real', 59, NULL, 4, 24, 0), ('float8', 'float', 62, NULL, 8, 53, 0), ('ss.money', 'money', 60, NULL,
        8, 19, 4),
    ('ss.smallmoney', 'smallmoney', 122, NULL, 4, 10, 4), ('date', 'date', 40, NULL, 3, 10, 0), ('ss.time', 'time',
        41, NULL, 5, 16, 7),
    ('ss.datetime2', 'datetime2', 42, NULL, 8, 27, 7), ('ss.datetimeoffset', 'datetimeoffset', 43, NULL, 10, 34, 7),
    ('ss.datetime', 'datetime', 61, NULL, 8, 23, 3), ('ss.smalldatetime', 'smalldatetime', 58, NULL, 4, 16, 0),
    ('ss.uniqueidentifier', 'uniqueidentifier', 36, NULL, 16, 0, 0), ('ss.char', 'char', 175, NULL, 8000, 0, 0),
    ('ss.varchar', 'varchar', 167, NULL, 8000, 0, 0), ('ss.nchar', 'nchar', 239, NULL, 8000, 0, 0),
    ('ss.nvarchar', 'nvarchar', 231, NULL, 8000, 0, 0), ('ss.text', 'text', 35, NULL, 16, 0, 0), ('ss.ntext',
        'ntext', 99, NULL, 16, 0, 0),
    ('ss.image', 'image', 34, NULL, 16, 0, 0), ('ss.binary', 'binary', 173, NULL, 8000, 0, 0), ('ss.varbinary',
        'varbinary', 165, NULL, 8000, 0, 0),
    ('ss.rowversion', 'timestamp', 189, NULL, 8, 0, 0), ('ss.xml', 'xml', 241, NULL, -1, 0, 0), ('ss.sql_variant',
        'sql_variant', 98, NULL, 8016, 0, 0),
    ('ss.hierarchyid', 'hierarchyid', 240, 128, 892, 0, 0), ('ss.geometry', 'geometry', 240, 129, -1, 0, 0),
        ('ss.geography', 'geography', 240, 130, -1, 0, 0),
    ('text', 'nvarchar', 231, NULL, 8000, 0, 0)
) AS k (type, name, system, own, size, digits, fraction);
