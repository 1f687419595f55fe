-- The system views that readers of a schema ask ("System catalog views").  What Postgres has no room for stands as
    -- JSON
-- in the comment of the table, the column or the database.

CREATE FUNCTION ss.flags(text) RETURNS jsonb IMMUTABLE LANGUAGE sql RETURN coalesce($1::jsonb, '{}');
CREATE FUNCTION ss.flag(text, text) RETURNS ss.bit IMMUTABLE LANGUAGE sql RETURN (CASE WHEN ss.flags($1) ? $2 THEN 1
    ELSE 0 END)::ss.bit;
CREATE FUNCTION ss.visible(oid) RETURNS bool STABLE LANGUAGE sql RETURN has_any_column_privilege($1,
    'SELECT, INSERT, UPDATE, REFERENCES') OR has_table_privilege($1, 'DELETE');
CREATE FUNCTION ss.max_length(name text, size int, modifier int) RETURNS int2 IMMUTABLE LANGUAGE sql RETURN (CASE
    WHEN name IN ('varchar', 'nvarchar', 'varbinary') AND modifier < 0 THEN -1
    WHEN name IN ('nvarchar', 'nchar') THEN (modifier - 4) * 2 WHEN name IN ('varchar', 'char', 'varbinary',
        'binary') THEN modifier - 4
    WHEN name = 'decimal' THEN CASE WHEN modifier < 0 THEN 17 WHEN (modifier - 4) >> 16 <= 9 THEN 5
        WHEN (modifier - 4) >> 16 <= 19 THEN 9
        WHEN (modifier - 4) >> 16 <= 28 THEN 13 ELSE 17 END
    WHEN name IN ('time', 'datetime2', 'datetimeoffset') AND modifier > 0 THEN size - CASE
        WHEN modifier - 5 <= 2 THEN 2 WHEN modifier - 5 <= 4 THEN 1 ELSE 0 END
    ELSE size END)::int2;
CREATE FUNCTION ss.scale(name text, fraction int, modifier int) RETURNS int IMMUTABLE LANGUAGE sql RETURN CASE
    WHEN name = 'decimal' AND modifier > 0 THEN (modifier - 4) & 65535
    WHEN name IN ('time', 'datetime2', 'datetimeoffset') AND modifier > 0 THEN modifier - 5 ELSE fraction END;
CREATE FUNCTION ss.precision(name text, digits int, modifier int) RETURNS int IMMUTABLE LANGUAGE sql RETURN CASE
    WHEN name = 'decimal' AND modifier > 0 THEN (modifier - 4) >> 16
    WHEN name IN ('time', 'datetime2', 'datetimeoffset') AND modifier = 5 THEN digits - 8
    WHEN name IN ('time', 'datetime2', 'datetimeoffset') AND modifier > 0 THEN digits - 7 + modifier - 5
        ELSE digits END;

CREATE SCHEMA sys;
CREATE VIEW sys.schemas AS SELECT nspname::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS name,
    oid::int8::int4 AS schema_id, 1 AS principal_id
    FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('ss', 'information_schema', 'public');
CREATE VIEW ss.all_objects AS
    SELECT c.oid::int8::int4 AS object_id, c.relname::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS
        name, c.relnamespace::int8::int4 AS schema_id,
        0 AS parent_object_id, (CASE c.relkind WHEN 'v' THEN 'V ' ELSE 'U ' END)::ss.char(2) AS type,
        (CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'USER_TABLE' END)::ss.nvarchar(60) AS type_desc, c.oid AS class,
        (n.nspname IN ('cdc', 'sys', 'INFORMATION_SCHEMA'))::int::ss.bit AS is_ms_shipped
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN sys.schemas s ON s.schema_id = n.oid::int8
    WHERE c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition AND ss.visible(c.oid)
    UNION ALL SELECT x.oid::int8::int4, x.conname::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS",
        x.connamespace::int8::int4, x.conrelid::int8::int4,
        (CASE x.contype WHEN 'p' THEN 'PK' WHEN 'u' THEN 'UQ' WHEN 'f' THEN 'F ' ELSE 'C ' END)::ss.char(2),
        (CASE x.contype WHEN 'p' THEN 'PRIMARY_KEY_CONSTRAINT' WHEN 'u' THEN 'UNIQUE_CONSTRAINT'
            WHEN 'f' THEN 'FOREIGN_KEY_CONSTRAINT' ELSE 'CHECK_CONSTRAINT' END)::ss.nvarchar(60),
        x.conrelid, 0::ss.bit
    FROM pg_constraint x JOIN sys.schemas s ON s.schema_id = x.connamespace::int8 WHERE x.contype IN ('p', 'u', 'f',
        'c') AND ss.visible(x.conrelid);
CREATE VIEW sys.objects AS SELECT object_id, name, schema_id, parent_object_id, type, type_desc, is_ms_shipped,
    '2024-01-01'::text::ss.datetime AS create_date, '2024-01-01'::text::ss.datetime AS modify_date
    FROM ss.all_objects WHERE schema_id NOT IN (SELECT schema_id FROM sys.schemas WHERE name::text IN ('sys',
        'INFORMATION_SCHEMA'));
CREATE VIEW sys.all_objects AS SELECT object_id, name, schema_id, parent_object_id, type, type_desc, is_ms_shipped
    FROM ss.all_objects;
CREATE VIEW sys.tables AS SELECT o.object_id, o.name, o.schema_id, o.parent_object_id, o.type, o.type_desc,
    o.create_date, o.modify_date, o.is_ms_shipped,
        (EXISTS (SELECT FROM ss.captures t WHERE t.source = o.object_id::oid))::int::ss.bit AS is_tracked_by_cdc,
        coalesce((f.flags ->> 'temporal')::int, 0)::ss.tinyint AS temporal_type,
        (CASE (f.flags ->> 'temporal')::int WHEN 1 THEN 'HISTORY_TABLE' WHEN 2 THEN 'SYSTEM_VERSIONED_TEMPORAL_TABLE'
            ELSE 'NON_TEMPORAL_TABLE' END)::ss.nvarchar(60) AS temporal_type_desc,
        ss.object_id(f.flags ->> 'history') AS history_table_id, ss.flag(f.flags::text,
            'memory') AS is_memory_optimized,
        0::ss.tinyint AS durability, 'SCHEMA_AND_DATA'::ss.nvarchar(60) AS durability_desc, 0::ss.bit AS is_external,
            0::ss.bit AS is_filetable,
        0::ss.bit AS is_node, 0::ss.bit AS is_edge, 0::ss.bit AS is_replicated, 0::ss.bit AS has_replication_filter,
            0::ss.bit AS is_merge_published,
        (SELECT max(attnum)::int FROM pg_attribute WHERE attrelid = o.object_id::oid) AS max_column_id_used,
            0::ss.tinyint AS lock_escalation
    FROM sys.objects o CROSS JOIN LATERAL (SELECT ss.flags(obj_description(o.object_id::oid,
        'pg_class')) AS flags) AS f WHERE o.type::text = 'U ';
CREATE VIEW sys.views AS SELECT * FROM sys.objects WHERE type::text = 'V ';
CREATE VIEW ss.all_columns AS SELECT a.attrelid AS class, a.attrelid::int8::int4 AS object_id,
    a.attname::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS name, a.attnum::int4 AS column_id,
        k.system_type_id::ss.tinyint AS system_type_id,
        coalesce((f.flags ->> 'user_type')::int, k.user_type_id) AS user_type_id, k.name AS kind, a.atttypmod AS modifier,
        ss.max_length(k.name, k.size, a.atttypmod) AS max_length, ss.precision(k.name, k.digits,
            a.atttypmod)::ss.tinyint AS precision,
        ss.scale(k.name, k.fraction, a.atttypmod)::ss.tinyint AS scale,
        (CASE WHEN k.name IN ('char', 'varchar', 'text', 'nchar', 'nvarchar', 'ntext') THEN CASE
            WHEN l.collname = 'default' THEN 'SQL_Latin1_General_CP1_CI_AS'
            ELSE l.collname END END)::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS collation_name,
                (NOT a.attnotnull)::int::ss.bit AS is_nullable,
        (a.attidentity <> '')::int::ss.bit AS is_identity, (a.attgenerated <> '')::int::ss.bit AS is_computed,
            f.flags, a.attgenerated,
        pg_get_expr(d.adbin, d.adrelid) AS expression
    FROM pg_attribute a JOIN ss.kinds k ON k.type = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    CROSS JOIN LATERAL (SELECT ss.flags(col_description(a.attrelid, a.attnum)) AS flags) AS f
    WHERE a.attnum > 0 AND NOT a.attisdropped;
CREATE VIEW sys.columns AS SELECT c.object_id, c.name, c.column_id, c.system_type_id, c.user_type_id, c.max_length,
    c.precision, c.scale, c.collation_name, c.is_nullable,
        1::ss.bit AS is_ansi_padded, ss.flag(c.flags::text, 'rowguid') AS is_rowguidcol, c.is_identity,
            c.is_computed, 0::ss.bit AS is_filestream, 0::ss.bit AS is_replicated,
        0::ss.bit AS is_xml_document, 0 AS xml_collection_id, coalesce(x.object_id, 0) AS default_object_id,
            0 AS rule_object_id, ss.flag(c.flags::text, 'sparse') AS is_sparse,
        ss.flag(c.flags::text, 'column_set') AS is_column_set, coalesce((c.flags ->> 'always')::int,
            0)::ss.tinyint AS generated_always_type,
        (CASE (c.flags ->> 'always')::int WHEN 1 THEN 'AS_ROW_START' WHEN 2 THEN 'AS_ROW_END'
            ELSE 'NOT_APPLICABLE' END)::ss.nvarchar(60) AS generated_always_type_desc,
        NULL::int AS encryption_type, ss.flag(c.flags::text, 'hidden') AS is_hidden, ss.flag(c.flags::text,
            'masked') AS is_masked
    FROM ss.all_columns c LEFT JOIN (SELECT oid::int8::int4 AS object_id, adrelid, adnum FROM pg_attrdef) AS x
        ON x.adrelid = c.class AND x.adnum = c.column_id AND c.attgenerated = ''
    WHERE c.object_id IN (SELECT object_id FROM sys.all_objects);
CREATE VIEW sys.all_columns AS SELECT * FROM sys.columns;
CREATE VIEW sys.computed_columns AS SELECT c.object_id, c.name, c.column_id, c.system_type_id, c.user_type_id,
    c.max_length, c.is_nullable, c.is_computed,
    ('(' || c.expression || ')')::ss.nvarchar AS definition, ss.flag(c.flags::text, 'persisted') AS is_persisted,
        1::ss.bit AS uses_database_collation
    FROM ss.all_columns c WHERE c.attgenerated <> '' AND c.object_id IN (SELECT object_id FROM sys.objects);
CREATE VIEW sys.identity_columns AS SELECT c.object_id, c.name, c.column_id, c.is_identity, 1::int8 AS seed_value,
    1::int8 AS increment_value FROM sys.columns c WHERE c.is_identity::int2 = 1;
CREATE VIEW sys.default_constraints AS SELECT d.oid::int8::int4 AS object_id, coalesce(c.flags ->> 'default_name',
    'DF__' || c.column_id)::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS name,
    c.object_id AS parent_object_id, c.column_id AS parent_column_id,
        ('(' || c.expression || ')')::ss.nvarchar AS definition, 'D '::ss.char(2) AS type
    FROM pg_attrdef d JOIN ss.all_columns c ON c.class = d.adrelid AND c.column_id = d.adnum
        WHERE c.attgenerated = '' AND c.object_id IN (SELECT object_id FROM sys.objects);
CREATE VIEW sys.types AS SELECT name::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS name,
    system_type_id::ss.tinyint AS system_type_id, user_type_id, ss.schema_id('sys') AS schema_id,
    size::int2 AS max_length,
    digits::ss.tinyint AS precision, fraction::ss.tinyint AS scale, 1::ss.bit AS is_nullable,
        0::ss.bit AS is_user_defined, (system_type_id = 240)::int::ss.bit AS is_assembly_type,
    0::ss.bit AS is_table_type, NULL::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS collation_name
        FROM ss.kinds WHERE type <> 'text'::regtype
    UNION ALL SELECT 'sysname', 231::ss.tinyint, 256, ss.schema_id('sys'), 256, 0::ss.tinyint, 0::ss.tinyint, 0::ss.bit,
        0::ss.bit, 0::ss.bit, 0::ss.bit, 'SQL_Latin1_General_CP1_CI_AS'
    UNION ALL SELECT a.name::ss.nvarchar(128), k.system_type_id::ss.tinyint, a.number, ss.schema_id(a.schema),
        ss.max_length(k.name, k.size, a.modifier), ss.precision(k.name, k.digits, a.modifier)::ss.tinyint,
        ss.scale(k.name, k.fraction, a.modifier)::ss.tinyint, (NOT a.required)::int::ss.bit, 1::ss.bit, 0::ss.bit,
        0::ss.bit, NULL FROM ss.alias_types a JOIN ss.kinds k ON k.type = a.base;
CREATE FUNCTION ss.set_user_type(target regclass, wanted text, number int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE flags jsonb; BEGIN
    SELECT ss.flags(col_description(attrelid, attnum)) - 'user_type' INTO flags FROM pg_attribute
        WHERE attrelid = target AND attname = wanted;
    IF number IS NOT NULL THEN flags := flags || jsonb_build_object('user_type', number); END IF;
    EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', target, wanted, nullif(flags, '{}')::text);
END $$;
CREATE VIEW sys.assembly_types AS SELECT name, system_type_id, user_type_id, schema_id, max_length, is_nullable
    FROM sys.types WHERE system_type_id::int2 = 240;
CREATE VIEW ss.all_indexes AS SELECT i.indrelid AS class, i.indrelid::int8::int4 AS object_id, c.relname AS name,
    i.indexrelid, i.indkey, i.indoption, i.indnkeyatts,
        CASE WHEN i.indisprimary THEN 1 ELSE 1 + row_number() OVER (PARTITION BY i.indrelid,
            i.indisprimary ORDER BY i.indexrelid) END::int4 AS index_id,
        i.indisunique, i.indisprimary, x.contype, pg_get_expr(i.indpred, i.indrelid) AS filter
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid LEFT JOIN pg_constraint x ON x.conindid = i.indexrelid
        AND x.contype IN ('p', 'u')
    WHERE i.indrelid::int8::int4 IN (SELECT object_id FROM sys.objects);
CREATE VIEW sys.indexes AS SELECT object_id, name::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS
    name, index_id, (CASE WHEN indisprimary THEN 1 ELSE 2 END)::ss.tinyint AS type,
        (CASE WHEN indisprimary THEN 'CLUSTERED' ELSE 'NONCLUSTERED' END)::ss.nvarchar(60) AS type_desc,
            indisunique::int::ss.bit AS is_unique, indisprimary::int::ss.bit AS is_primary_key,
        (contype IS NOT DISTINCT FROM 'u')::int::ss.bit AS is_unique_constraint, 0::ss.bit AS is_disabled,
            0::ss.bit AS is_hypothetical, 0::ss.bit AS ignore_dup_key,
        (filter IS NOT NULL)::int::ss.bit AS has_filter, filter::ss.nvarchar AS filter_definition, 1 AS data_space_id
    FROM ss.all_indexes
    UNION ALL SELECT t.object_id, NULL, 0, 0::ss.tinyint, 'HEAP', 0::ss.bit, 0::ss.bit, 0::ss.bit, 0::ss.bit,
        0::ss.bit, 0::ss.bit, 0::ss.bit, NULL, 1 FROM sys.tables t
        WHERE NOT EXISTS (SELECT FROM ss.all_indexes i WHERE i.object_id = t.object_id AND i.indisprimary);
CREATE VIEW sys.index_columns AS SELECT i.object_id, i.index_id, p.n::int4 AS index_column_id,
    i.indkey[p.n - 1]::int4 AS column_id,
        (CASE WHEN p.n <= i.indnkeyatts THEN p.n ELSE 0 END)::ss.tinyint AS key_ordinal,
            0::ss.tinyint AS partition_ordinal,
        (CASE WHEN p.n <= i.indnkeyatts THEN i.indoption[p.n - 1] & 1 ELSE 0 END)::ss.bit AS is_descending_key,
            (p.n > i.indnkeyatts)::int::ss.bit AS is_included_column
    FROM ss.all_indexes i CROSS JOIN LATERAL generate_series(1, cardinality(i.indkey)) AS p (n);
CREATE VIEW sys.key_constraints AS SELECT o.object_id, o.name, o.schema_id, o.parent_object_id, o.type, o.type_desc,
    i.index_id AS unique_index_id, 0::ss.bit AS is_system_named
    FROM sys.objects o JOIN pg_constraint x ON x.oid = o.object_id::oid
        JOIN ss.all_indexes i ON i.indexrelid = x.conindid WHERE x.contype IN ('p', 'u');
CREATE VIEW sys.foreign_keys AS SELECT o.object_id, o.name, o.schema_id, o.parent_object_id, o.type,
    x.confrelid::int8::int4 AS referenced_object_id, 0::ss.bit AS is_disabled, 0::ss.bit AS is_not_trusted,
    (CASE x.confdeltype WHEN 'c' THEN 1 WHEN 'n' THEN 2 WHEN 'd' THEN 3
        ELSE 0 END)::ss.tinyint AS delete_referential_action,
    (CASE x.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET_NULL' WHEN 'd' THEN 'SET_DEFAULT'
        ELSE 'NO_ACTION' END)::ss.nvarchar(60) AS delete_referential_action_desc,
    (CASE x.confupdtype WHEN 'c' THEN 1 WHEN 'n' THEN 2 WHEN 'd' THEN 3
        ELSE 0 END)::ss.tinyint AS update_referential_action
    FROM sys.objects o JOIN pg_constraint x ON x.oid = o.object_id::oid WHERE x.contype = 'f';
CREATE VIEW sys.foreign_key_columns AS SELECT f.object_id AS constraint_object_id, p.n::int4 AS constraint_column_id,
    f.parent_object_id, x.conkey[p.n]::int4 AS parent_column_id,
    f.referenced_object_id, x.confkey[p.n]::int4 AS referenced_column_id
    FROM sys.foreign_keys f JOIN pg_constraint x ON x.oid = f.object_id::oid CROSS JOIN LATERAL generate_series(1,
        cardinality(x.conkey)) AS p (n);
CREATE VIEW sys.partitions AS SELECT i.object_id::int8 AS partition_id, i.object_id, i.index_id,
    n AS partition_number, CASE n WHEN 1 THEN greatest(c.reltuples, 0)::int8 ELSE 0 END AS rows
    FROM sys.indexes i JOIN pg_class c ON c.oid = i.object_id::oid CROSS JOIN LATERAL generate_series(1,
        coalesce((ss.flags(obj_description(c.oid, 'pg_class')) ->> 'partitions')::int, 1)) AS g (n);
CREATE VIEW sys.dm_db_partition_stats AS SELECT p.partition_id, p.object_id, p.index_id, p.partition_number,
    p.rows AS row_count,
    pg_relation_size(p.object_id::oid) / 8192 AS used_page_count,
        pg_relation_size(p.object_id::oid) / 8192 AS reserved_page_count,
    pg_relation_size(p.object_id::oid) / 8192 AS in_row_data_page_count FROM sys.partitions p
    WHERE p.partition_number = 1 AND ss.require('DATABASE', 'VIEW DATABASE STATE') AND ss.require('DATABASE', 'VIEW DEFINITION');
CREATE VIEW sys.periods AS SELECT ''::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS name,
    1::ss.tinyint AS period_type, 0 AS object_id, 0 AS start_column_id, 0 AS end_column_id WHERE false;
CREATE VIEW sys.triggers AS SELECT ''::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS name,
    0 AS object_id, 0 AS parent_id, 0::ss.bit AS is_disabled WHERE false;
CREATE VIEW sys.extended_properties AS SELECT 1::ss.tinyint AS class, d.objoid::int8::int4 AS major_id,
    d.objsubid AS minor_id, 'MS_Description'::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS name,
    (ss.flags(d.description) ->> 'description')::ss.nvarchar(4000) AS value FROM pg_description d
        WHERE d.classoid = 'pg_class'::regclass AND d.description LIKE '{%"description"%'
        AND d.objoid::int8::int4 IN (SELECT object_id FROM sys.objects);

CREATE FUNCTION ss.database_flags(oid) RETURNS jsonb STABLE LANGUAGE sql RETURN ss.flags(shobj_description($1,
    'pg_database'));
-- "sys.fn_hadr_is_primary_replica (Transact-SQL)": NULL outside of availability groups.
CREATE FUNCTION sys.fn_hadr_is_primary_replica(given text) RETURNS ss.bit STABLE SECURITY DEFINER LANGUAGE sql RETURN
    (CASE WHEN pg_is_in_recovery() THEN 0 WHEN EXISTS (SELECT FROM pg_replication_slots WHERE slot_type = 'physical')
        THEN 1 END)::ss.bit;
CREATE VIEW sys.databases AS SELECT d.datname::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS name,
    d.oid::int8::int4 AS database_id, 160::ss.tinyint AS compatibility_level,
        'SQL_Latin1_General_CP1_CI_AS'::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS collation_name,
            0::ss.tinyint AS state, 'ONLINE'::ss.nvarchar(60) AS state_desc, 0::ss.bit AS is_read_only,
            'MULTI_USER'::ss.nvarchar(60) AS user_access_desc,
        md5('broker' || d.datname)::uuid::ss.uniqueidentifier AS service_broker_guid,
        ss.flag(f.flags::text, 'cdc') AS is_cdc_enabled, ss.flag(f.flags::text,
            'snapshot')::int2::ss.tinyint AS snapshot_isolation_state,
        (CASE WHEN f.flags ? 'snapshot' THEN 'ON' ELSE 'OFF' END)::ss.nvarchar(60) AS snapshot_isolation_state_desc,
            ss.flag(f.flags::text, 'rcsi') AS is_read_committed_snapshot_on, 0::ss.bit AS is_published,
        coalesce(f.flags ->> 'recovery', 'FULL')::ss.nvarchar(60) AS recovery_model_desc,
            1::ss.tinyint AS recovery_model, 0::ss.bit AS is_auto_close_on,
        '2024-01-01'::text::ss.datetime AS create_date, NULL::ss.uniqueidentifier AS replica_id,
            (CASE WHEN sys.fn_hadr_is_primary_replica(d.datname) IS NOT NULL
                THEN md5('group' || d.datname)::uuid END)::ss.uniqueidentifier AS group_database_id, 'NOTHING'::ss.nvarchar(60) AS log_reuse_wait_desc,
        0::ss.bit AS is_accelerated_database_recovery_on, ss.suser_sname()::ss.nvarchar(128) COLLATE
            ss."SQL_Latin1_General_CP1_CI_AS" AS owner
    FROM pg_database d CROSS JOIN LATERAL (SELECT ss.database_flags(d.oid) AS flags) AS f WHERE NOT d.datistemplate
        AND d.datname <> 'postgres';
CREATE VIEW sys.dm_server_services AS SELECT 'SQL Server (MSSQLSERVER)'::ss.nvarchar(256) AS servicename,
    4 AS status, 'Running'::ss.nvarchar(256) AS status_desc, 2 AS startup_type
    UNION ALL SELECT 'SQL Server Agent (MSSQLSERVER)', CASE WHEN w.running THEN 4 ELSE 1 END, CASE
        WHEN w.running THEN 'Running' ELSE 'Stopped' END, 2
    FROM (SELECT NOT (ss.database_flags((SELECT oid FROM pg_database
        WHERE datname = 'master')) ? 'agent_stopped') AS running) AS w WHERE ss.require('SERVER', 'VIEW SERVER STATE');
CREATE VIEW sys.database_principals AS SELECT split_part(r.rolname, '.',
    2)::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS name, r.oid::int8::int4 AS principal_id,
    'R'::ss.char(1) AS type, 'DATABASE_ROLE'::ss.nvarchar(60) AS type_desc
    FROM pg_roles r WHERE r.rolname LIKE current_database() || '.%'
    UNION ALL SELECT r.rolname::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS", r.oid::int8::int4, 'S',
        'SQL_USER' FROM pg_roles r WHERE r.rolcanlogin AND NOT r.rolsuper AND has_database_privilege(r.oid,
        current_database(), 'CONNECT');

CREATE SCHEMA "INFORMATION_SCHEMA";
CREATE VIEW "INFORMATION_SCHEMA"."TABLES" AS SELECT current_database()::ss.nvarchar(128) COLLATE
    ss."SQL_Latin1_General_CP1_CI_AS" AS "TABLE_CATALOG", s.name AS "TABLE_SCHEMA", o.name AS "TABLE_NAME",
    (CASE o.type::text WHEN 'U ' THEN 'BASE TABLE' ELSE 'VIEW' END)::ss.varchar(10) AS "TABLE_TYPE"
    FROM sys.objects o JOIN sys.schemas s ON s.schema_id = o.schema_id WHERE o.type::text IN ('U ', 'V ');
CREATE VIEW "INFORMATION_SCHEMA"."SCHEMATA" AS SELECT current_database()::ss.nvarchar(128) COLLATE
    ss."SQL_Latin1_General_CP1_CI_AS" AS "CATALOG_NAME", s.name AS "SCHEMA_NAME",
    'dbo'::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS "SCHEMA_OWNER" FROM sys.schemas s;
CREATE VIEW "INFORMATION_SCHEMA"."COLUMNS" AS SELECT current_database()::ss.nvarchar(128) COLLATE
    ss."SQL_Latin1_General_CP1_CI_AS" AS "TABLE_CATALOG", s.name AS "TABLE_SCHEMA", o.name AS "TABLE_NAME",
    c.name AS "COLUMN_NAME",
    c.column_id AS "ORDINAL_POSITION", ('(' || CASE WHEN c.attgenerated = '' THEN c.expression END ||
        ')')::ss.nvarchar(4000) AS "COLUMN_DEFAULT",
    (CASE WHEN c.is_nullable::int2 = 1 THEN 'YES' ELSE 'NO' END)::ss.varchar(3) AS "IS_NULLABLE",
        c.kind::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS "DATA_TYPE",
    CASE WHEN c.kind IN ('nchar', 'nvarchar') AND c.max_length > 0 THEN c.max_length / 2 WHEN c.kind IN ('char',
        'varchar', 'nvarchar', 'binary', 'varbinary', 'xml') THEN c.max_length
        WHEN c.kind IN ('text', 'image') THEN 2147483647 WHEN c.kind = 'ntext' THEN 1073741823 END::int4 AS
            "CHARACTER_MAXIMUM_LENGTH",
    CASE WHEN c.kind IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'money', 'smallmoney', 'float',
        'real') THEN c.precision END AS "NUMERIC_PRECISION",
    CASE WHEN c.kind IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'money',
        'smallmoney') THEN c.scale::int4 END AS "NUMERIC_SCALE",
    CASE WHEN c.kind IN ('datetime', 'datetime2', 'time', 'datetimeoffset', 'date',
        'smalldatetime') THEN c.scale::int2 END AS "DATETIME_PRECISION", c.collation_name AS "COLLATION_NAME"
    FROM ss.all_columns c JOIN sys.objects o ON o.object_id = c.object_id
        JOIN sys.schemas s ON s.schema_id = o.schema_id;
CREATE VIEW "INFORMATION_SCHEMA"."TABLE_CONSTRAINTS" AS SELECT s.name AS "CONSTRAINT_SCHEMA",
    o.name AS "CONSTRAINT_NAME", s.name AS "TABLE_SCHEMA", ss.object_name(o.parent_object_id)::ss.nvarchar(128)
    COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS "TABLE_NAME",
    (CASE o.type::text WHEN 'PK' THEN 'PRIMARY KEY' WHEN 'UQ' THEN 'UNIQUE' WHEN 'F ' THEN 'FOREIGN KEY'
        ELSE 'CHECK' END)::ss.varchar(11) AS "CONSTRAINT_TYPE"
    FROM sys.objects o JOIN sys.schemas s ON s.schema_id = o.schema_id WHERE o.type::text IN ('PK', 'UQ', 'F ', 'C ');
CREATE VIEW "INFORMATION_SCHEMA"."KEY_COLUMN_USAGE" AS SELECT s.name AS "CONSTRAINT_SCHEMA",
    k.name AS "CONSTRAINT_NAME", s.name AS "TABLE_SCHEMA", ss.object_name(k.parent_object_id)::ss.nvarchar(128)
    COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS "TABLE_NAME",
    c.name AS "COLUMN_NAME", i.key_ordinal::int4 AS "ORDINAL_POSITION"
    FROM sys.key_constraints k JOIN sys.schemas s ON s.schema_id = k.schema_id
        JOIN sys.index_columns i ON i.object_id = k.parent_object_id AND i.index_id = k.unique_index_id
    JOIN sys.columns c ON c.object_id = i.object_id AND c.column_id = i.column_id;
CREATE SCHEMA dbo;
