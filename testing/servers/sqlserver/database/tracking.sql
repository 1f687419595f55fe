-- Change Tracking ("About Change Tracking (SQL Server)", "CHANGETABLE (Transact-SQL)").  A transaction gets its version
-- when it commits, under a lock that it holds until others see it: so a snapshot shows the versions up to the newest one
-- that it shows, and no others.
CREATE SEQUENCE ss.ct_version;
CREATE TABLE ss.ct_open (xid xid8 PRIMARY KEY);
CREATE TABLE ss.ct_commits (xid xid8 PRIMARY KEY, version int8 NOT NULL UNIQUE,
    at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE ss.ct_tables (source oid PRIMARY KEY, begin_version int8 NOT NULL, min_valid_version int8 NOT NULL,
    cleanup_version int8 NOT NULL DEFAULT 0);
CREATE FUNCTION ss.ct_committed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('change tracking'));
    INSERT INTO ss.ct_commits (xid, version) VALUES (NEW.xid, nextval('ss.ct_version'));
    DELETE FROM ss.ct_open WHERE xid = NEW.xid;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER committed AFTER INSERT ON ss.ct_open DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION ss.ct_committed();
CREATE FUNCTION ss.ct_newest() RETURNS int8 STABLE SECURITY DEFINER LANGUAGE sql
    AS 'SELECT coalesce(max(version), 0) FROM ss.ct_commits';
CREATE FUNCTION ss.ct_retention() RETURNS int4 STABLE LANGUAGE sql RETURN (SELECT (ss.database_flags(oid)
    ->> 'tracking')::int4 FROM pg_database WHERE datname = current_database());
CREATE FUNCTION ss.change_tracking_current_version() RETURNS int8 STABLE LANGUAGE sql
    RETURN CASE WHEN ss.ct_retention() IS NOT NULL THEN ss.ct_newest() END;
CREATE FUNCTION ss.change_tracking_min_valid_version(id int4) RETURNS int8 STABLE STRICT SECURITY DEFINER LANGUAGE sql
    RETURN (SELECT min_valid_version FROM ss.ct_tables WHERE source = id::oid);
-- As if change tracking had just been enabled ("CHANGETABLE", Remarks, on TRUNCATE TABLE).
CREATE FUNCTION ss.ct_reset(id oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    EXECUTE format('DELETE FROM ss.%I', 'ct_' || id);
    UPDATE ss.ct_tables SET begin_version = ss.ct_newest(), min_valid_version = ss.ct_newest() WHERE source = id;
END $$;
CREATE FUNCTION ss.ct_truncated() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    PERFORM ss.ct_reset(TG_RELID); RETURN NULL; END $$;
CREATE FUNCTION ss.ct_untrack(id oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    DELETE FROM ss.ct_tables WHERE source = id;
    IF NOT FOUND THEN RETURN; END IF;
    EXECUTE format('DROP FUNCTION ss.%I(int8)', 'changes_' || id);
    EXECUTE format('DROP VIEW ss.%I', 'changes_row_' || id);
    EXECUTE format('DROP FUNCTION ss.%I() CASCADE', 'ct_' || id);
    EXECUTE format('DROP TABLE ss.%I', 'ct_' || id);
    EXECUTE format('DROP TRIGGER truncated ON %s', id::regclass);
END $$;
-- What the cleanup task does: changes older than the retention go.
CREATE FUNCTION ss.ct_cleanup() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE last int8; t ss.ct_tables; BEGIN
    SELECT max(version) INTO last FROM ss.ct_commits
        WHERE at < clock_timestamp() - make_interval(mins => ss.ct_retention());
    IF last IS NULL THEN RETURN; END IF;
    FOR t IN SELECT * FROM ss.ct_tables LOOP
        EXECUTE format('DELETE FROM ss.%I c USING ss.ct_commits m WHERE m.xid = c.xid AND m.version <= $1',
            'ct_' || t.source) USING last;
    END LOOP;
    UPDATE ss.ct_tables SET cleanup_version = last, min_valid_version = greatest(min_valid_version, last);
    DELETE FROM ss.ct_commits WHERE version < last;  -- the last one stays: there is a newest version then
END $$;
CREATE VIEW sys.change_tracking_databases AS SELECT ss.db_id() AS database_id, 1::ss.bit AS is_auto_cleanup_on,
    ss.ct_retention() AS retention_period, 1::ss.tinyint AS retention_period_units,
    'MINUTES'::ss.nvarchar(60) AS retention_period_units_desc WHERE ss.ct_retention() IS NOT NULL;
CREATE VIEW sys.change_tracking_tables AS SELECT t.source::int8::int4 AS object_id,
    0::ss.bit AS is_track_columns_updated_on, t.min_valid_version, t.begin_version, t.cleanup_version
    FROM ss.ct_tables t;
GRANT SELECT ON sys.change_tracking_databases, sys.change_tracking_tables TO PUBLIC;
