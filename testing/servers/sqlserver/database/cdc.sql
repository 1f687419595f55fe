-- Functions of change data capture ("Change Data Capture Functions (Transact-SQL)").

-- A place of Postgres' log as SQL Server spells one: virtual log file, block, slot.
CREATE FUNCTION ss.lsn(place pg_lsn, slot int DEFAULT 1) RETURNS bytea IMMUTABLE LANGUAGE sql RETURN
    int4send(((place - '0/0') / 4294967296)::int8::int4 + 42) || substr(int8send(((place - '0/0') %
        4294967296)::int8), 5, 4) || int2send(slot::int2);
CREATE FUNCTION ss.lsn_number(lsn bytea) RETURNS numeric IMMUTABLE STRICT LANGUAGE sql RETURN (
    SELECT sum(get_byte(lsn, i) * power(256::numeric, octet_length(lsn) - 1 - i)) FROM generate_series(0,
        octet_length(lsn) - 1) AS i);
CREATE FUNCTION ss.number_lsn(given numeric) RETURNS bytea IMMUTABLE STRICT LANGUAGE sql RETURN (
    SELECT decode(string_agg(lpad(to_hex((div(given, power(256::numeric, i)) % 256)::int4), 2, '0'),
        '' ORDER BY i DESC), 'hex') FROM generate_series(0, 9) AS i);

CREATE FUNCTION sys.fn_cdc_get_max_lsn() RETURNS ss."binary" STABLE SECURITY DEFINER LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT m.start_lsn FROM cdc.lsn_time_mapping m ORDER BY m.start_lsn DESC LIMIT 1);
EXCEPTION WHEN undefined_table OR invalid_schema_name THEN RETURN NULL; END $$;
CREATE FUNCTION sys.fn_cdc_get_min_lsn(instance text) RETURNS ss."binary" STABLE
    LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE found bytea;
BEGIN
    SELECT t.start_lsn::bytea INTO found FROM cdc.change_tables t
        WHERE lower(t.capture_instance::text) = lower(instance) AND ss.may_read_changes(t.capture_instance::text);
    RETURN coalesce(found, '\x00000000000000000000');
EXCEPTION WHEN undefined_table OR invalid_schema_name THEN RETURN '\x00000000000000000000'; END $$;
CREATE FUNCTION ss.may_read_changes(instance text) RETURNS bool STABLE LANGUAGE sql AS $$
    SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = session_user) OR EXISTS (SELECT FROM pg_roles r
        WHERE r.rolname = current_database() || '.db_owner' AND pg_has_role(session_user, r.oid, 'MEMBER'))
        OR EXISTS (SELECT FROM ss.captures c LEFT JOIN pg_roles r ON r.rolname = current_database() || '.' ||
            lower(c.role) WHERE c.instance = $1
            AND has_any_column_privilege(session_user, c.source, 'SELECT')
                AND (c.role IS NULL OR pg_has_role(session_user, r.oid, 'MEMBER'))) $$;
CREATE FUNCTION sys.fn_cdc_increment_lsn(lsn ss."varbinary") RETURNS ss."binary" IMMUTABLE STRICT LANGUAGE sql
    RETURN ss.number_lsn(ss.lsn_number(lsn::bytea) + 1);
CREATE FUNCTION sys.fn_cdc_decrement_lsn(lsn ss."varbinary") RETURNS ss."binary" IMMUTABLE STRICT LANGUAGE sql
    RETURN ss.number_lsn(ss.lsn_number(lsn::bytea) - 1);
CREATE FUNCTION sys.fn_cdc_map_lsn_to_time(lsn ss."varbinary") RETURNS ss.datetime STABLE STRICT
    LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN RETURN (SELECT m.tran_end_time FROM cdc.lsn_time_mapping m WHERE m.start_lsn::bytea = lsn::bytea); END $$;
CREATE FUNCTION sys.fn_cdc_map_time_to_lsn(how text, moment ss.datetime) RETURNS ss."binary" STABLE STRICT
    LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN CASE lower(how)
        WHEN 'smallest greater than' THEN (SELECT m.start_lsn FROM cdc.lsn_time_mapping m
            WHERE m.tran_end_time > moment ORDER BY 1 LIMIT 1)
        WHEN 'smallest greater than or equal' THEN (SELECT m.start_lsn FROM cdc.lsn_time_mapping m
            WHERE m.tran_end_time >= moment ORDER BY 1 LIMIT 1)
        WHEN 'largest less than' THEN (SELECT m.start_lsn FROM cdc.lsn_time_mapping m
            WHERE m.tran_end_time < moment ORDER BY 1 DESC LIMIT 1)
        WHEN 'largest less than or equal' THEN (SELECT m.start_lsn FROM cdc.lsn_time_mapping m
            WHERE m.tran_end_time <= moment ORDER BY 1 DESC LIMIT 1)
        ELSE ss.fail(22863, 'The relational operator is not known.')::text::bytea::ss."binary" END;
END $$;
CREATE FUNCTION sys.fn_cdc_is_bit_set(place int4, mask ss."varbinary") RETURNS ss.bit IMMUTABLE STRICT
    LANGUAGE sql RETURN
    ((get_byte(mask::bytea, octet_length(mask::bytea) - 1 - (place - 1) / 8) >> ((place - 1) % 8)) & 1)::ss.bit;
CREATE FUNCTION sys.fn_cdc_get_column_ordinal(instance text, wanted text) RETURNS int4 STABLE STRICT
    LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN RETURN (SELECT c.ordinal FROM ss.captured_columns c WHERE lower(c.instance) = lower($1)
    AND lower(c.name) = lower(wanted)); END $$;
CREATE FUNCTION sys.fn_cdc_has_column_changed(instance text, wanted text, mask ss."varbinary")
    RETURNS ss.bit STABLE STRICT LANGUAGE sql
RETURN sys.fn_cdc_is_bit_set(sys.fn_cdc_get_column_ordinal(instance, wanted), mask);

-- The check of the generated functions: error 313 for a range outside the validity interval, for want of a better one
-- ("cdc.fn_cdc_get_all_changes_<capture_instance>", Remarks).
CREATE FUNCTION ss.check_range(instance text, from_lsn bytea, to_lsn bytea, option text, options text[])
    RETURNS bool STABLE LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE low bytea; high bytea := sys.fn_cdc_get_max_lsn()::bytea;
BEGIN
    IF NOT ss.may_read_changes(instance) THEN
        PERFORM ss.fail(229,
            format('The SELECT permission was denied on the object ''fn_cdc_get_all_changes_%s'', schema ''cdc''.',
            instance));
    END IF;
    SELECT t.start_lsn::bytea INTO low FROM cdc.change_tables t WHERE t.capture_instance::text = instance;
    IF from_lsn IS NULL OR to_lsn IS NULL OR option IS NULL OR NOT lower(btrim(option)) = ANY (options) OR from_lsn <
        low OR to_lsn > high OR from_lsn > to_lsn
        OR from_lsn > high OR high IS NULL THEN
        PERFORM ss.fail(313,
            'An insufficient number of arguments were supplied for the procedure or function'
            ' cdc.fn_cdc_get_all_changes_ ... .');
    END IF;
    RETURN true;
END $$;

-- Where the log ends ("sys.dm_db_log_stats").
CREATE FUNCTION sys.dm_db_log_stats(int4) RETURNS TABLE (database_id int4, log_end_lsn ss.nvarchar,
    recovery_model ss.nvarchar) STABLE SECURITY DEFINER LANGUAGE sql AS $$
    SELECT $1, (substr(h, 1, 8) || ':' || substr(h, 9, 8) || ':' || substr(h, 17, 4))::ss.nvarchar,
        'FULL'::ss.nvarchar
    FROM (SELECT encode(ss.lsn(pg_current_wal_insert_lsn()), 'hex') AS h) AS x $$;

CREATE SCHEMA msdb;
CREATE VIEW msdb.cdc_jobs AS SELECT ss.db_id() AS database_id, j.kind::ss.nvarchar(20) AS job_type,
    NULL::ss.uniqueidentifier AS job_id, j.maxtrans, j.maxscans, (j.kind = 'capture')::int::ss.bit AS continuous,
    j.pollinginterval, j.retention, j.threshold FROM ss.jobs j
    WHERE ss.require('SERVER', 'msdb');
GRANT USAGE ON SCHEMA ss, sys, msdb, "INFORMATION_SCHEMA", dbo TO PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA sys, msdb, "INFORMATION_SCHEMA" TO PUBLIC;
GRANT SELECT ON ss.kinds, ss.alias_types, ss.captures, ss.captured_columns, ss.dbts, ss.all_objects, ss.all_columns, ss.all_indexes,
    ss.jobs TO PUBLIC;
GRANT USAGE ON SEQUENCE ss.dbts TO PUBLIC;

CREATE FUNCTION ss.drop_instance(gone text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE c ss.captures; BEGIN
    LOCK TABLE ss.captures IN ROW EXCLUSIVE MODE;  -- before the change table's, as the capture job does
    SELECT * INTO c FROM ss.captures WHERE instance = gone;
    EXECUTE format('DROP FUNCTION IF EXISTS cdc.%I', 'fn_cdc_get_net_changes_' || gone);
    EXECUTE format('DROP FUNCTION IF EXISTS cdc.%I', 'fn_cdc_get_all_changes_' || gone);
    EXECUTE format('DROP VIEW IF EXISTS ss.%I', gone || '_row');
    EXECUTE format('DROP TABLE IF EXISTS cdc.%I', gone || '_CT');
    DELETE FROM cdc.change_tables t WHERE t.object_id = c.change_table::int8;
    DELETE FROM cdc.captured_columns t WHERE t.object_id = c.change_table::int8;
    DELETE FROM cdc.index_columns t WHERE t.object_id = c.change_table::int8;
    DELETE FROM cdc.ddl_history t WHERE t.object_id = c.change_table::int8;
    DELETE FROM ss.captures WHERE instance = gone;
    IF NOT EXISTS (SELECT FROM ss.captures WHERE source = c.source) AND EXISTS (SELECT FROM pg_publication_rel
        WHERE prrelid = c.source) THEN
        EXECUTE format('ALTER PUBLICATION cdc DROP TABLE %s', c.source::regclass);
    END IF;
END $$;
CREATE FUNCTION ss.drop_instances() RETURNS void LANGUAGE sql AS 'SELECT ss.drop_instance(instance) FROM ss.captures';
