-- Functions of T-SQL.  What is not here is refused by the translation.

CREATE FUNCTION ss.now2() RETURNS ss.datetime2 LANGUAGE sql RETURN ss.of_timestamp(clock_timestamp() AT TIME ZONE
    'UTC');
CREATE FUNCTION ss.getdate() RETURNS ss.datetime LANGUAGE sql RETURN ss.now2()::ss.datetime;
CREATE FUNCTION ss.sysdatetimeoffset() RETURNS ss.datetimeoffset LANGUAGE sql RETURN ss.to_datetimeoffset(ss.now2());

CREATE FUNCTION ss.dateadd(part text, n int8, given ss.datetime2) RETURNS ss.datetime2 IMMUTABLE STRICT
    LANGUAGE plpgsql AS $$
DECLARE t int8 := given::int8; months int := CASE part WHEN 'year' THEN n * 12 WHEN 'quarter' THEN n * 3
    WHEN 'month' THEN n END;
BEGIN
    IF months IS NOT NULL THEN
        RETURN (ss.to_datetime2((ss.to_date(given) + make_interval(months => months))::date)::int8 + t %
            864000000000)::ss.datetime2;
    END IF;
    RETURN (t + n * CASE part WHEN 'week' THEN 6048000000000 WHEN 'day' THEN 864000000000 WHEN 'hour' THEN 36000000000
        WHEN 'minute' THEN 600000000 WHEN 'second' THEN 10000000 WHEN 'millisecond' THEN 10000
            WHEN 'microsecond' THEN 10
        ELSE ss.fail(155, format('''%s'' is not a recognized dateadd option.', part)) END)::ss.datetime2;
END $$;
CREATE FUNCTION ss.dateadd(part text, n int8, given ss.datetime) RETURNS ss.datetime IMMUTABLE STRICT LANGUAGE sql
RETURN ss.to_datetime(ss.dateadd(part, n, ss.to_datetime2(given)));
CREATE FUNCTION ss.dateadd(part text, n int8, given date) RETURNS date IMMUTABLE STRICT LANGUAGE sql
RETURN ss.to_date(ss.dateadd(part, n, ss.to_datetime2(given)));
CREATE FUNCTION ss.dateadd(part text, n int8, given ss.datetimeoffset) RETURNS ss.datetimeoffset IMMUTABLE STRICT
    LANGUAGE sql
RETURN ss.offset_of(ss.dateadd(part, n, ss.utc(given)::ss.datetime2)::int8, ss.minutes(given));
CREATE FUNCTION ss.dateadd(part text, n int8, given ss.time) RETURNS ss.time IMMUTABLE STRICT LANGUAGE sql
RETURN ((ss.dateadd(part, n, (given::int8 + 864000000000 * 366)::ss.datetime2)::int8) % 864000000000)::ss.time;
CREATE FUNCTION ss.datediff_big(part text, a ss.datetime2, b ss.datetime2) RETURNS int8 IMMUTABLE STRICT
    LANGUAGE plpgsql AS $$
DECLARE unit int8 := CASE part WHEN 'day' THEN 864000000000 WHEN 'hour' THEN 36000000000 WHEN 'minute' THEN 600000000
    WHEN 'second' THEN 10000000 WHEN 'millisecond' THEN 10000 WHEN 'microsecond' THEN 10
    ELSE ss.fail(155, format('''%s'' is not a recognized datediff option.', part)) END;
BEGIN RETURN b::int8 / unit - a::int8 / unit; END $$;
CREATE FUNCTION ss.datediff(part text, a ss.datetime2, b ss.datetime2) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql
RETURN ss.datediff_big(part, a, b)::int4;

CREATE FUNCTION ss.len(given text) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql RETURN length(rtrim(given, ' '));
CREATE FUNCTION ss.charindex(sought text, given text) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql
    RETURN strpos(lower(given), lower(sought));
CREATE FUNCTION ss.datalength(given ss.nvarchar) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql
    RETURN octet_length(ss.utf16(given::text));
CREATE FUNCTION ss.datalength(given ss.varchar) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql RETURN length(given::text);
CREATE FUNCTION ss.datalength(given ss.varbinary) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql
    RETURN octet_length(given::bytea);
CREATE FUNCTION ss.checksum(given anyelement) RETURNS int4 IMMUTABLE
    LANGUAGE sql AS 'SELECT hashtext(lower($1::text))';
CREATE FUNCTION ss.style(given ss.datetime2, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN CASE style WHEN 126 THEN ss.ticks_text(given::int8, 'T') WHEN 127 THEN ss.ticks_text(given::int8, 'T')
    WHEN 121 THEN ss.ticks_text(given::int8)
    WHEN 120 THEN ss.ticks_text(given::int8, ' ', 0) WHEN 23 THEN left(ss.ticks_text(given::int8), 10)
        ELSE ss.fail(281, format('%s is not a valid style number', style))::text END;
CREATE FUNCTION ss.style(given ss.datetimeoffset, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN CASE style WHEN 121 THEN ss.to_text(given) ELSE replace(regexp_replace(ss.to_text(given), ' ', 'T'), ' ',
    '') END;
CREATE FUNCTION ss.style(given ss.varbinary, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN CASE style WHEN 1 THEN '0x' || upper(encode(given::bytea, 'hex')) WHEN 2 THEN upper(encode(given::bytea,
    'hex'))
    ELSE ss.fail(281, format('%s is not a valid style number', style))::text END;
-- Style 3: always 17 digits; the exponent has three.
CREATE FUNCTION ss.style(given float8, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql RETURN CASE style
    WHEN 3 THEN regexp_replace(btrim(to_char(given, '9.9999999999999999EEEE')), 'e([+-])(\d\d)$', 'e\10\2')
    ELSE given::text END;
CREATE FUNCTION ss.style(given numeric, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql RETURN given::text;
CREATE FUNCTION ss.style(given ss.xml, style int) RETURNS text IMMUTABLE STRICT LANGUAGE sql RETURN given::text;
CREATE FUNCTION ss.unhex(given text, style int) RETURNS ss.varbinary IMMUTABLE STRICT LANGUAGE sql
RETURN decode(CASE style WHEN 1 THEN substr(given, 3) ELSE given END, 'hex')::ss.varbinary;

-- Names

CREATE FUNCTION ss.quotename(given text) RETURNS text IMMUTABLE STRICT LANGUAGE sql RETURN '[' || replace(given, ']',
    ']]') || ']';
CREATE FUNCTION ss.name_parts(given text) RETURNS text[] IMMUTABLE STRICT LANGUAGE sql RETURN
    (SELECT array_agg(coalesce(replace(p[1], ']]', ']'), replace(p[2], '""', '"'), p[3])) FROM
        regexp_matches(given, '\[((?:[^]]|\]\])*)\]|"((?:[^"]|"")*)"|([^.]+)', 'g') AS p);
CREATE FUNCTION ss.found(given text) RETURNS oid STABLE STRICT LANGUAGE sql RETURN (
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, ss.name_parts(given) AS p
    WHERE c.relkind IN ('r', 'p', 'v') AND lower(c.relname) = lower(p[cardinality(p)]) AND n.nspname <> 'ss'
        AND lower(n.nspname) = CASE WHEN cardinality(p) > 1 THEN lower(p[cardinality(p) - 1]) ELSE 'dbo' END
    ORDER BY c.relname = p[cardinality(p)] DESC LIMIT 1);
CREATE FUNCTION ss.object_id(given text, kind text DEFAULT 'U') RETURNS int4 STABLE STRICT LANGUAGE sql
    RETURN ss.found(given)::int8::int4;
CREATE FUNCTION ss.object_name(id int4) RETURNS ss.nvarchar STABLE STRICT LANGUAGE sql RETURN (SELECT relname::text
    FROM pg_class WHERE oid = id::oid);
CREATE FUNCTION ss.object_schema_name(id int4) RETURNS ss.nvarchar STABLE STRICT LANGUAGE sql
RETURN (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = id::oid);
CREATE FUNCTION ss.schema_id(given text DEFAULT 'dbo') RETURNS int4 STABLE STRICT LANGUAGE sql
RETURN (SELECT oid::int8::int4 FROM pg_namespace WHERE lower(nspname) = lower(given));
CREATE FUNCTION ss.schema_name(id int4 DEFAULT NULL) RETURNS ss.nvarchar STABLE LANGUAGE sql
RETURN coalesce((SELECT nspname::text FROM pg_namespace WHERE oid = id::oid), CASE WHEN id IS NULL THEN 'dbo' END);
CREATE FUNCTION ss.db_name(id int4 DEFAULT NULL) RETURNS ss.nvarchar STABLE LANGUAGE sql
RETURN (SELECT datname::text FROM pg_database WHERE oid = id::oid OR id IS NULL AND datname = current_database());
CREATE FUNCTION ss.db_id(given text DEFAULT NULL) RETURNS int4 STABLE LANGUAGE sql
RETURN (SELECT oid::int8::int4 FROM pg_database WHERE lower(datname) = lower(given) OR given IS NULL
    AND datname = current_database());
CREATE FUNCTION ss.type_name(id int4) RETURNS ss.nvarchar STABLE STRICT LANGUAGE sql RETURN (SELECT name::text
    FROM ss.kinds WHERE user_type_id = id LIMIT 1);
CREATE FUNCTION ss.type_name(id ss.tinyint) RETURNS ss.nvarchar STABLE STRICT LANGUAGE sql
RETURN ss.type_name(id::int2::int4);
CREATE FUNCTION ss.suser_sname() RETURNS ss.nvarchar STABLE LANGUAGE sql RETURN CASE session_user
    WHEN 'tidemark' THEN 'sa' ELSE session_user::text END;
CREATE FUNCTION ss.user_name() RETURNS ss.nvarchar STABLE LANGUAGE sql RETURN CASE session_user
    WHEN 'tidemark' THEN 'dbo' ELSE session_user::text END;
CREATE FUNCTION ss.super() RETURNS bool STABLE LANGUAGE sql RETURN (SELECT rolsuper FROM pg_roles
    WHERE rolname = current_user);

-- Rights: a database's roles are Postgres' roles `<database>.<role>`

CREATE FUNCTION ss.is_member(role text) RETURNS int4 STABLE STRICT LANGUAGE sql RETURN (
    SELECT CASE WHEN lower(role) = 'public' OR lower(role) = 'db_owner' AND ss.super() THEN 1 WHEN r.oid IS NULL
        AND lower(role) NOT LIKE 'db\_%' THEN NULL
        WHEN r.oid IS NOT NULL AND pg_has_role(current_user, r.oid, 'MEMBER') AND NOT ss.super() THEN 1 ELSE 0 END
    FROM (SELECT current_database() || '.' || lower(role) AS name) AS w LEFT JOIN pg_roles r ON r.rolname = w.name);
CREATE FUNCTION ss.is_rolemember(role text, principal text DEFAULT NULL) RETURNS int4 STABLE LANGUAGE sql
    RETURN ss.is_member(role);
CREATE FUNCTION ss.is_srvrolemember(role text) RETURNS int4 STABLE STRICT LANGUAGE sql
RETURN CASE WHEN lower(role) IN ('sysadmin', 'serveradmin', 'securityadmin', 'dbcreator', 'setupadmin',
    'processadmin', 'public') THEN
    CASE WHEN ss.super() OR lower(role) = 'public' THEN 1 ELSE 0 END END;
CREATE FUNCTION ss.has_perms_by_name(securable text, class text, permission text) RETURNS int4 STABLE
    LANGUAGE plpgsql AS $$
DECLARE p text := upper(permission); c text := upper(class);
BEGIN
    IF ss.super() OR ss.is_member('db_owner') = 1 AND c IS DISTINCT FROM 'SERVER' AND class IS NOT NULL THEN
        RETURN 1; END IF;
    IF c IS NULL OR c = 'SERVER' THEN
        RETURN CASE WHEN p IN ('VIEW SERVER STATE', 'VIEW SERVER PERFORMANCE STATE', 'VIEW ANY DEFINITION')
            AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'server.' || lower(p) AND pg_has_role(current_user,
                r.oid, 'MEMBER')) THEN 1 ELSE 0 END;
    END IF;
    IF c = 'DATABASE' THEN
        RETURN CASE WHEN p = 'CONNECT' OR p = 'SELECT' AND ss.is_member('db_datareader') = 1
            OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = current_database() || '.' || lower(p)
                AND pg_has_role(current_user, r.oid, 'MEMBER')) THEN 1 ELSE 0 END;
    END IF;
    IF c = 'SCHEMA' THEN
        RETURN CASE WHEN ss.is_member('db_datareader') = 1 AND p = 'SELECT' OR
            has_schema_privilege((ss.name_parts(securable))[1], 'USAGE')
            AND NOT EXISTS (SELECT FROM pg_class t WHERE t.relnamespace =
                ss.schema_id((ss.name_parts(securable))[1])::oid AND t.relkind = 'r'
                AND NOT has_table_privilege(t.oid, p)) THEN 1 ELSE 0 END;
    END IF;
    IF ss.found(securable) IS NULL THEN RETURN NULL; END IF;
    RETURN CASE WHEN p IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') AND has_table_privilege(ss.found(securable),
        p) THEN 1 ELSE 0 END;
END $$;

-- Error 300 or 262 for what a view asks of an account; in msdb its guest may read nothing (229), and with the habit
-- `no guest` it does not get in (916).
CREATE FUNCTION ss.require(class text, permission text) RETURNS bool STABLE LANGUAGE plpgsql AS $$
BEGIN
    IF ss.super() OR permission = 'msdb' AND ss.azure() THEN RETURN true; END IF;
    IF permission = 'msdb' AND NOT EXISTS (SELECT FROM ss.habits WHERE name = 'no guest') THEN PERFORM ss.fail(229,
        'The SELECT permission was denied on the object ''cdc_jobs'', database ''msdb'', schema ''dbo''.'); END IF;
    IF permission = 'msdb' THEN PERFORM ss.fail(916, format('The server principal "%s" is not able to access the'
        ' database "msdb" under the current security context.', session_user)); END IF;
    IF ss.has_perms_by_name(NULL, class, permission) = 1 THEN RETURN true; END IF;
    PERFORM ss.fail(CASE class WHEN 'SERVER' THEN 300 ELSE 262 END, CASE class WHEN 'SERVER' THEN format(
        '%s permission was denied on object ''server'', database ''master''.', permission)
        ELSE format('%s permission denied in database ''%s''.', permission, current_database()) END);
    RETURN false;
END $$;
-- Is the database Azure SQL Database ("EXEC sp_emulator @name = 'edition'")?
CREATE FUNCTION ss.azure() RETURNS bool STABLE LANGUAGE sql RETURN (SELECT coalesce(shobj_description(oid,
    'pg_database')::jsonb ? 'azure', false) FROM pg_database WHERE datname = current_database());
CREATE FUNCTION ss.serverproperty(given text) RETURNS ss.nvarchar STABLE STRICT LANGUAGE sql RETURN (
    CASE lower(CASE WHEN ss.azure() THEN 'azure ' ELSE '' END || given) WHEN 'azure productversion' THEN '12.0.2000.8'
        WHEN 'azure edition' THEN 'SQL Azure' WHEN 'azure engineedition' THEN '5'
        WHEN 'azure collation' THEN 'SQL_Latin1_General_CP1_CI_AS'
        WHEN 'productversion' THEN '16.0.4135.4' WHEN 'productmajorversion' THEN '16'
        WHEN 'productlevel' THEN 'RTM'
        WHEN 'productupdatelevel' THEN 'CU14' WHEN 'edition' THEN 'Developer Edition (64-bit)'
            WHEN 'engineedition' THEN '3'
        WHEN 'servername' THEN 'EMULATOR' WHEN 'machinename' THEN 'EMULATOR'
            WHEN 'collation' THEN 'SQL_Latin1_General_CP1_CI_AS'
        WHEN 'ishadrenabled' THEN '0' WHEN 'isclustered' THEN '0' WHEN 'isintegratedsecurityonly' THEN '0' END);
CREATE FUNCTION ss.databasepropertyex(base text, given text) RETURNS ss.nvarchar STABLE STRICT LANGUAGE sql RETURN (
    CASE lower(given) WHEN 'collation' THEN 'SQL_Latin1_General_CP1_CI_AS' WHEN 'updateability' THEN CASE
        WHEN pg_is_in_recovery() THEN 'READ_ONLY' ELSE 'READ_WRITE' END
        WHEN 'status' THEN 'ONLINE'
        WHEN 'recovery' THEN 'FULL' END);

-- rowversion: one counter per database, as @@DBTS

CREATE SEQUENCE ss.dbts START 2001;
CREATE FUNCTION ss.rowversion() RETURNS ss.rowversion LANGUAGE sql RETURN int8send(nextval('ss.dbts'))::ss.rowversion;
CREATE FUNCTION ss.stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RETURN jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[0], '\x' || encode(int8send(nextval('ss.dbts')),
    'hex'))); END $$;
CREATE FUNCTION ss.has_dbaccess(name text) RETURNS int4 STABLE STRICT LANGUAGE sql RETURN (SELECT
    has_database_privilege(d.oid, 'CONNECT')::int FROM pg_database d WHERE lower(d.datname) = lower(name));
