-- Views and functions of the server: sessions, recovery, and what else a check asks.
CREATE FUNCTION ss.lock_table(name text, mode text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE 'LOCK TABLE ' || name || ' IN ' || mode || ' MODE'; END $$;
CREATE FUNCTION ss.pattern(given text) RETURNS text IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE made text := replace(given, '\', '\\'); BEGIN
    made := replace(replace(replace(made, '[_]', '\_'), '[%]', '\%'), '[[]', '~~[~~');
    IF made ~ '\[' AND made !~ '~~\[~~' THEN PERFORM ss.fail(50000,
        'The emulator does not know this pattern of LIKE: ' || given); END IF;
    RETURN replace(made, '~~[~~', '[');
END $$;
CREATE FUNCTION ss.datepart(part text, given ss.datetime2) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql RETURN CASE part
    WHEN 'year' THEN extract(year FROM ss.to_date(given)) WHEN 'month' THEN extract(month FROM ss.to_date(given))
        WHEN 'day' THEN extract(day FROM ss.to_date(given))
    WHEN 'hour' THEN given::int8 / 36000000000 % 24 WHEN 'minute' THEN given::int8 / 600000000 % 60
        WHEN 'second' THEN given::int8 / 10000000 % 60
    WHEN 'tzoffset' THEN 0 ELSE ss.fail(155, format('''%s'' is not a recognized datepart option.', part)) END::int4;
CREATE FUNCTION ss.datepart(part text, given ss.datetimeoffset) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql
RETURN CASE part WHEN 'tzoffset' THEN ss.minutes(given) ELSE ss.datepart(part, ss.to_datetime2(given)) END;
-- "AT TIME ZONE (Transact-SQL)", "CURRENT_TIMEZONE_ID (Transact-SQL)": Windows' names of zones, of which some are known.
CREATE FUNCTION ss.at_time_zone(given ss.datetime2, zone text) RETURNS ss.datetimeoffset STABLE STRICT LANGUAGE plpgsql
AS $$
DECLARE known text := CASE zone WHEN 'UTC' THEN 'UTC' WHEN 'W. Europe Standard Time' THEN 'Europe/Berlin'
    WHEN 'Pacific Standard Time' THEN 'America/Los_Angeles' ELSE ss.fail(9820,
        format('The time zone parameter ''%s'' provided to AT TIME ZONE clause is invalid.', zone))::text END;
    here timestamp := ss.ticks_text(given::int8)::timestamp;
BEGIN
    RETURN ss.todatetimeoffset(given,
        (extract(epoch FROM (here AT TIME ZONE 'UTC') - (here AT TIME ZONE known)) / 60)::int4);
END $$;
CREATE FUNCTION ss.current_timezone_id() RETURNS ss.nvarchar STABLE LANGUAGE sql RETURN
    coalesce((SELECT substr(name, 6) FROM ss.habits WHERE name LIKE 'zone %'), 'UTC')::ss.nvarchar;
CREATE FUNCTION ss.todatetimeoffset(given ss.datetime2, zone text) RETURNS ss.datetimeoffset IMMUTABLE STRICT
    LANGUAGE sql RETURN ss.to_datetimeoffset(ss.ticks_text(given::int8) || ' ' || zone);
CREATE FUNCTION ss.todatetimeoffset(given ss.datetime2, minutes int4) RETURNS ss.datetimeoffset IMMUTABLE STRICT
    LANGUAGE sql RETURN ss.offset_of(given::int8 - minutes::int8 * 600000000, minutes);
CREATE FUNCTION ss.style(given ss.datetime2, style int, digits int) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN CASE WHEN style IN (120, 23) THEN ss.style(given, style) ELSE ss.ticks_text(given::int8, CASE
    WHEN style IN (126, 127) THEN 'T' ELSE ' ' END, digits) END;
CREATE FUNCTION ss.style(given ss.time, style int, digits int DEFAULT 7) RETURNS text IMMUTABLE STRICT LANGUAGE sql
    RETURN substr(ss.ticks_text(given::int8, ' ', digits), 12);
CREATE FUNCTION ss.style(given ss.datetimeoffset, style int, digits int) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN ss.ticks_text(ss.to_datetime2(given)::int8, CASE WHEN style IN (126, 127) THEN 'T' ELSE ' ' END,
    digits) || CASE WHEN style IN (126, 127) THEN '' ELSE ' ' END || right(ss.to_text(given), 6);
CREATE FUNCTION ss.style(given ss.datetime, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN CASE WHEN style IN (126, 127) THEN replace(ss.to_text(given), ' ', 'T')
    WHEN style = 121 THEN ss.to_text(given) ELSE ss.style(ss.to_datetime2(given), style) END;
CREATE FUNCTION ss.style(given ss.smalldatetime, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN CASE WHEN style = 121 THEN ss.to_text(given) || '.000' WHEN style IN (126,
    127) THEN replace(ss.to_text(given), ' ', 'T') ELSE ss.to_text(given) END;
CREATE FUNCTION ss.style(given date, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql RETURN given::text;
CREATE FUNCTION ss.style(given ss.uniqueidentifier, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql
    RETURN ss.to_text(given);
CREATE FUNCTION ss.collationproperty(name text, property text) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql
RETURN CASE lower(property) WHEN 'codepage' THEN CASE WHEN name ILIKE '%\_UTF8' THEN 65001
    WHEN name ILIKE 'Cyrillic%' THEN 1251 WHEN name ILIKE 'Japanese%' THEN 932 ELSE 1252 END
    WHEN 'lcid' THEN 1033 END;
CREATE FUNCTION ss.geography_point(latitude float8, longitude float8, srid int4)
    RETURNS ss.geography IMMUTABLE STRICT LANGUAGE sql
RETURN (ss.reversed(int4send(srid)) || '\x010c'::bytea || ss.reversed(float8send(latitude)) ||
    ss.reversed(float8send(longitude)))::ss.geography;
CREATE FUNCTION ss.geometry_point(x float8, y float8, srid int4) RETURNS ss.geometry IMMUTABLE STRICT LANGUAGE sql
RETURN (ss.reversed(int4send(srid)) || '\x010c'::bytea || ss.reversed(float8send(x)) ||
    ss.reversed(float8send(y)))::ss.geometry;
CREATE FUNCTION ss.hierarchyid_getroot() RETURNS ss.hierarchyid IMMUTABLE LANGUAGE sql
    RETURN '\x'::bytea::ss.hierarchyid;
CREATE FUNCTION ss.hierarchyid_parse(given text) RETURNS ss.hierarchyid IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE bits text := ''; n int; one text; BEGIN  -- ordinals 0 to 79, as SqlHierarchyId writes them
    FOREACH one IN ARRAY string_to_array(trim(both '/' from given), '/') LOOP
        CONTINUE WHEN one = '';
        n := one::int;
        bits := bits || CASE WHEN n BETWEEN 0 AND 3 THEN '01' || n::bit(2)::text || '1' WHEN n BETWEEN 4
            AND 7 THEN '100' || (n - 4)::bit(2)::text || '1'
            WHEN n BETWEEN 8 AND 15 THEN '101' || (n - 8)::bit(3)::text || '1'
            WHEN n BETWEEN 16 AND 79 THEN '110' || ((n - 16) / 32)::bit(2)::text || '0' || ((n - 16) / 8 %
                4)::bit(1)::text || '1' || ((n - 16) % 8)::bit(3)::text || '1'
            ELSE ss.fail(6522, 'The emulator keeps ordinals 0 to 15 of hierarchyid.')::text END;
        IF n > 15 THEN PERFORM ss.fail(6522, 'The emulator keeps ordinals 0 to 15 of hierarchyid.'); END IF;
    END LOOP;
    bits := rpad(bits, (length(bits) + 7) / 8 * 8, '0');
    RETURN coalesce((SELECT decode(string_agg(lpad(to_hex(substr(bits, i * 8 + 1, 8)::bit(8)::int), 2, '0'),
        '' ORDER BY i), 'hex') FROM generate_series(0, length(bits) / 8 - 1) AS i), '\x')::ss.hierarchyid;
END $$;
CREATE FUNCTION ss.tostring(given ss.hierarchyid) RETURNS ss.nvarchar IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE bits text := ''; made text := '/'; BEGIN
    SELECT string_agg(get_byte(given::bytea, i)::bit(8)::text, '' ORDER BY i) INTO bits FROM generate_series(0,
        octet_length(given::bytea) - 1) AS i;
    WHILE bits ~ '1' LOOP
        IF bits LIKE '01%' THEN made := made || substr(bits, 3, 2)::bit(2)::int || '/'; bits := substr(bits, 6);
        ELSIF bits LIKE '100%' THEN made := made || (4 + substr(bits, 4,
            2)::bit(2)::int) || '/'; bits := substr(bits, 7);
        ELSIF bits LIKE '101%' THEN made := made || (8 + substr(bits, 4,
            3)::bit(3)::int) || '/'; bits := substr(bits, 8);
        ELSE PERFORM ss.fail(6522, 'The emulator keeps ordinals 0 to 15 of hierarchyid.'); END IF;
    END LOOP;
    RETURN made;
END $$;
CREATE FUNCTION ss.spelled_hierarchy(given ss.hierarchyid) RETURNS ss.nvarchar IMMUTABLE STRICT LANGUAGE sql
    RETURN ss.tostring(given);
CREATE CAST (ss.hierarchyid AS ss.nvarchar) WITH FUNCTION ss.spelled_hierarchy(ss.hierarchyid) AS ASSIGNMENT;
CREATE FUNCTION ss.to_hierarchyid(given text) RETURNS ss.hierarchyid IMMUTABLE STRICT LANGUAGE sql
    RETURN ss.hierarchyid_parse(given);
CREATE CAST (ss.nvarchar AS ss.hierarchyid) WITH FUNCTION ss.to_hierarchyid(text) AS ASSIGNMENT;
CREATE CAST (ss.varchar AS ss.hierarchyid) WITH FUNCTION ss.to_hierarchyid(text) AS ASSIGNMENT;

CREATE VIEW sys.database_recovery_status AS SELECT ss.db_id() AS database_id,
    md5(s.system_identifier::text || current_database())::uuid::ss.uniqueidentifier AS database_guid,
    md5('family' || s.system_identifier::text || current_database())::uuid::ss.uniqueidentifier AS family_guid,
    md5('fork' || s.system_identifier::text || current_database() || coalesce(f.flags ->> 'fork',
        ''))::uuid::ss.uniqueidentifier AS recovery_fork_guid
    FROM pg_control_system() s CROSS JOIN LATERAL (SELECT ss.database_flags(d.oid) AS flags FROM pg_database d
        WHERE d.datname = current_database()) AS f;
CREATE VIEW sys.dm_exec_connections AS SELECT current_setting('tidemark.spid', true)::int4 AS session_id,
    coalesce(current_setting('tidemark.encrypted', true), 'FALSE')::ss.nvarchar(40) AS encrypt_option,
    'TCP'::ss.nvarchar(40) AS net_transport, 'SQL'::ss.nvarchar(40) AS auth_scheme
    WHERE ss.require('SERVER', 'VIEW SERVER STATE');
CREATE VIEW sys.dm_exec_sessions AS SELECT substr(a.application_name, 11)::int4 AS session_id,
    'emulated'::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS program_name,
    a.usename::ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" AS login_name,
    (CASE a.state WHEN 'active' THEN 'running' ELSE 'sleeping' END)::ss.nvarchar(30) AS status
        FROM pg_stat_activity a WHERE a.application_name ~ '^sqlserver \d+$';
CREATE VIEW sys.dm_exec_requests AS SELECT s.session_id, s.status, ss.db_id() AS database_id
    FROM sys.dm_exec_sessions s WHERE s.status::text = 'running';
CREATE VIEW sys.dm_cdc_log_scan_sessions AS SELECT 1 AS session_id, ss.getdate() AS start_time,
    ss.getdate() AS end_time, 0 AS error_count, 0::int8 AS latency, 1 AS empty_scan_count WHERE false;
CREATE VIEW sys.dm_cdc_errors AS SELECT 1 AS session_id, 0 AS phase_number, ss.getdate() AS entry_time,
    0 AS error_number, ''::ss.nvarchar(1024) AS error_message WHERE false;
-- Availability groups ("sys.fn_hadr_is_primary_replica", "sys.dm_hadr_database_replica_states").
CREATE FUNCTION ss.suspended() RETURNS bool VOLATILE SECURITY DEFINER LANGUAGE sql AS $$ SELECT pg_is_in_recovery() AND
    (pg_is_wal_replay_paused() OR NOT EXISTS (SELECT FROM pg_stat_wal_receiver)) $$;
CREATE VIEW sys.dm_hadr_database_replica_states AS SELECT ss.db_id() AS database_id, 1::ss.bit AS is_local,
    (NOT pg_is_in_recovery())::int::ss.bit AS is_primary_replica, s.suspended::int::ss.bit AS is_suspended,
    (CASE WHEN s.suspended THEN 'NOT SYNCHRONIZING' ELSE 'SYNCHRONIZED' END)::ss.nvarchar(60)
        AS synchronization_state_desc,
    (CASE WHEN s.suspended THEN 'SUSPEND_FROM_USER' END)::ss.nvarchar(60) AS suspend_reason_desc
    FROM (SELECT ss.suspended() AS suspended) AS s WHERE sys.fn_hadr_is_primary_replica('') IS NOT NULL;
