-- Conversions that SQL Server does by itself or by CAST ("Data type conversion (Database Engine)", chart).
-- An error carries SQL Server's number as its detail.

CREATE FUNCTION ss.fail(number int, message text) RETURNS int8 LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '%', message USING ERRCODE = 'TS000', DETAIL = number::text; END $$;

CREATE FUNCTION ss.day_ticks(y int, m int, d int) RETURNS int8 IMMUTABLE LANGUAGE sql
RETURN (make_date(y, m, d) - DATE '0001-01-01')::int8 * 864000000000;

-- A date, a time or both, to units of 100 ns; an offset is looked at by `ss.parsed_offset` alone.
CREATE FUNCTION ss.parsed_moment(given text) RETURNS int8 IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE
    p text[] := regexp_match(btrim(given),
        '^(?:(\d{4})-(\d{1,2})-(\d{1,2})|(\d{4})(\d\d)(\d\d))?(?:[T ]*(\d{1,2}):(\d\d)'
        '(?::(\d\d)(?:\.(\d{1,9}))?)?)? ?(?:Z|[+-]\d\d:\d\d)?$');
    days int8 := ss.day_ticks(1900, 1, 1);
BEGIN
    IF p IS NULL OR p[7]::int > 23 OR p[8]::int > 59 OR p[9]::int > 59 THEN
        PERFORM ss.fail(241, 'Conversion failed when converting date and/or time from character string.');
    END IF;
    IF coalesce(p[1], p[4]) IS NOT NULL THEN
        days := ss.day_ticks(coalesce(p[1], p[4])::int, coalesce(p[2], p[5])::int, coalesce(p[3], p[6])::int);
    END IF;
    RETURN days + coalesce(p[7], '0')::int8 * 36000000000 + coalesce(p[8], '0')::int8 * 600000000
        + coalesce(p[9], '0')::int8 * 10000000 + round(('0.' || coalesce(p[10], '0'))::numeric * 10000000)::int8;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
    RETURN ss.fail(241, 'Conversion failed when converting date and/or time from character string.');
END $$;

CREATE FUNCTION ss.parsed_offset(given text) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE p text[] := regexp_match(btrim(given), '([+-])(\d\d):(\d\d)$');
BEGIN
    IF p IS NULL OR given !~ ':.*[+-]' THEN RETURN 0; END IF;
    RETURN (p[1] || '1')::int * (p[2]::int * 60 + p[3]::int);
END $$;

CREATE FUNCTION ss.ticks_text(ticks int8, separator text DEFAULT ' ', digits int DEFAULT 7) RETURNS text
IMMUTABLE STRICT LANGUAGE sql RETURN
    to_char(DATE '0001-01-01' + (ticks / 864000000000)::int, 'YYYY-MM-DD') || separator || to_char(TIME '00:00'
    + make_interval(secs => (ticks % 864000000000) / 10000000), 'HH24:MI:SS')
    || CASE WHEN digits = 0 THEN '' ELSE '.' || left(lpad((ticks % 10000000)::text, 7, '0'), digits) END;

-- Rounds to n digits of a second; the modifier is n + 1.
CREATE FUNCTION ss.rounded(ticks int8, modifier int) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql RETURN
    CASE WHEN modifier < 4 OR modifier >= 12 THEN ticks
    ELSE (round(ticks::numeric / power(10::numeric, 12 - modifier)) * power(10::numeric, 12 - modifier))::int8 END;

-- datetime2

CREATE FUNCTION ss.to_datetime2(given text) RETURNS ss.datetime2 IMMUTABLE STRICT LANGUAGE sql
RETURN ss.parsed_moment(given)::ss.datetime2;
CREATE FUNCTION ss.to_datetime2(given date) RETURNS ss.datetime2 IMMUTABLE STRICT LANGUAGE sql
RETURN ((given - DATE '0001-01-01')::int8 * 864000000000)::ss.datetime2;
CREATE FUNCTION ss.to_datetime2(given ss.datetime) RETURNS ss.datetime2 IMMUTABLE STRICT LANGUAGE sql
RETURN (ss.day_ticks(1900, 1, 1) + round(given::int8::numeric * 100000 / 3)::int8)::ss.datetime2;
CREATE FUNCTION ss.to_datetime2(given ss.smalldatetime) RETURNS ss.datetime2 IMMUTABLE STRICT LANGUAGE sql
RETURN (ss.day_ticks(1900, 1, 1) + given::int8 * 600000000)::ss.datetime2;
CREATE FUNCTION ss.fit(given ss.datetime2, modifier int) RETURNS ss.datetime2 IMMUTABLE STRICT LANGUAGE sql
RETURN ss.rounded(given::int8, modifier)::ss.datetime2;
CREATE FUNCTION ss.to_text(given ss.datetime2) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN ss.ticks_text(given::int8);
CREATE FUNCTION ss.to_date(given ss.datetime2) RETURNS date IMMUTABLE STRICT LANGUAGE sql
RETURN DATE '0001-01-01' + (given::int8 / 864000000000)::int;
CREATE FUNCTION ss.to_date(given text) RETURNS date IMMUTABLE STRICT LANGUAGE sql
RETURN DATE '0001-01-01' + (ss.parsed_moment(given) / 864000000000)::int;
CREATE FUNCTION ss.of_timestamp(given timestamp) RETURNS ss.datetime2 IMMUTABLE STRICT LANGUAGE sql
RETURN ((given::date - DATE '0001-01-01')::int8 * 864000000000
    + (extract(epoch FROM given::time) * 10000000)::int8)::ss.datetime2;
CREATE CAST (ss.datetime2 AS ss.datetime2) WITH FUNCTION ss.fit(ss.datetime2, int) AS IMPLICIT;
CREATE CAST (date AS ss.datetime2) WITH FUNCTION ss.to_datetime2(date) AS IMPLICIT;
CREATE CAST (ss.datetime AS ss.datetime2) WITH FUNCTION ss.to_datetime2(ss.datetime) AS IMPLICIT;
CREATE CAST (ss.smalldatetime AS ss.datetime2) WITH FUNCTION ss.to_datetime2(ss.smalldatetime) AS IMPLICIT;
CREATE CAST (ss.datetime2 AS date) WITH FUNCTION ss.to_date(ss.datetime2) AS ASSIGNMENT;

-- datetime: to 1/300 s, .000, .003 or .007

CREATE FUNCTION ss.to_datetime(given ss.datetime2) RETURNS ss.datetime IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE made int8 := round((given::int8 - ss.day_ticks(1900, 1, 1))::numeric * 3 / 100000)::int8;
BEGIN
    IF given::int8 < ss.day_ticks(1753, 1, 1) THEN
        PERFORM ss.fail(242,
            'The conversion of a datetime2 data type to a datetime data type resulted in an out-of-range value.');
    END IF;
    RETURN made::ss.datetime;
END $$;
CREATE FUNCTION ss.to_datetime(given text) RETURNS ss.datetime IMMUTABLE STRICT LANGUAGE sql
RETURN ss.to_datetime(ss.to_datetime2(given));
CREATE FUNCTION ss.to_datetime(given date) RETURNS ss.datetime IMMUTABLE STRICT LANGUAGE sql
RETURN ss.to_datetime(ss.to_datetime2(given));
CREATE FUNCTION ss.to_datetime(given ss.smalldatetime) RETURNS ss.datetime IMMUTABLE STRICT LANGUAGE sql
RETURN (given::int8 * 18000)::ss.datetime;
CREATE FUNCTION ss.to_text(given ss.datetime) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN left(ss.ticks_text((round(ss.to_datetime2(given)::int8::numeric / 10000) * 10000)::int8), 23);
CREATE FUNCTION ss.to_date(given ss.datetime) RETURNS date IMMUTABLE STRICT LANGUAGE sql
RETURN ss.to_date(ss.to_datetime2(given));
CREATE CAST (ss.datetime2 AS ss.datetime) WITH FUNCTION ss.to_datetime(ss.datetime2) AS ASSIGNMENT;
CREATE CAST (date AS ss.datetime) WITH FUNCTION ss.to_datetime(date) AS ASSIGNMENT;
CREATE CAST (ss.smalldatetime AS ss.datetime) WITH FUNCTION ss.to_datetime(ss.smalldatetime) AS IMPLICIT;
CREATE CAST (ss.datetime AS date) WITH FUNCTION ss.to_date(ss.datetime) AS ASSIGNMENT;

-- smalldatetime: to the minute

CREATE FUNCTION ss.to_smalldatetime(given ss.datetime2) RETURNS ss.smalldatetime IMMUTABLE STRICT
    LANGUAGE plpgsql AS $$
DECLARE made int8 := round((given::int8 - ss.day_ticks(1900, 1, 1))::numeric / 600000000)::int8;
BEGIN
    IF made < 0 OR made > 65535::int8 * 1440 + 1439 THEN
        PERFORM ss.fail(242,
            'The conversion of a datetime2 data type to a smalldatetime data type resulted in an out-of-range value.');
    END IF;
    RETURN made::ss.smalldatetime;
END $$;
CREATE FUNCTION ss.to_smalldatetime(given text) RETURNS ss.smalldatetime IMMUTABLE STRICT LANGUAGE sql
RETURN ss.to_smalldatetime(ss.to_datetime2(given));
CREATE FUNCTION ss.to_smalldatetime(given date) RETURNS ss.smalldatetime IMMUTABLE STRICT LANGUAGE sql
RETURN ss.to_smalldatetime(ss.to_datetime2(given));
CREATE FUNCTION ss.to_smalldatetime(given ss.datetime) RETURNS ss.smalldatetime IMMUTABLE STRICT LANGUAGE sql
RETURN ss.to_smalldatetime(ss.to_datetime2(given));
CREATE FUNCTION ss.to_text(given ss.smalldatetime) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN ss.ticks_text(ss.to_datetime2(given)::int8, ' ', 0);
CREATE CAST (ss.datetime2 AS ss.smalldatetime) WITH FUNCTION ss.to_smalldatetime(ss.datetime2) AS ASSIGNMENT;
CREATE CAST (date AS ss.smalldatetime) WITH FUNCTION ss.to_smalldatetime(date) AS ASSIGNMENT;
CREATE CAST (ss.datetime AS ss.smalldatetime) WITH FUNCTION ss.to_smalldatetime(ss.datetime) AS ASSIGNMENT;

-- time

CREATE FUNCTION ss.to_time(given text) RETURNS ss.time IMMUTABLE STRICT LANGUAGE sql
RETURN (ss.parsed_moment(given) % 864000000000)::ss.time;
CREATE FUNCTION ss.to_time(given ss.datetime2) RETURNS ss.time IMMUTABLE STRICT LANGUAGE sql
RETURN (given::int8 % 864000000000)::ss.time;
CREATE FUNCTION ss.to_text(given ss.time) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN substr(ss.ticks_text(given::int8), 12);
CREATE FUNCTION ss.fit(given ss.time, modifier int) RETURNS ss.time IMMUTABLE STRICT LANGUAGE sql
RETURN (CASE WHEN ss.rounded(given::int8, modifier) >= 864000000000 THEN 0 ELSE ss.rounded(given::int8,
    modifier) END)::ss.time;
CREATE CAST (ss.time AS ss.time) WITH FUNCTION ss.fit(ss.time, int) AS IMPLICIT;
CREATE CAST (ss.datetime2 AS ss.time) WITH FUNCTION ss.to_time(ss.datetime2) AS ASSIGNMENT;

-- datetimeoffset: UTC's units and the offset in minutes

CREATE FUNCTION ss.offset_of(utc int8, minutes int) RETURNS ss.datetimeoffset IMMUTABLE STRICT LANGUAGE sql
RETURN (int8send(utc) || int2send(minutes::int2))::ss.datetimeoffset;
CREATE FUNCTION ss.utc(given ss.datetimeoffset) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql
RETURN ('x' || encode(substr(given::bytea, 1, 8), 'hex'))::bit(64)::int8;
CREATE FUNCTION ss.minutes(given ss.datetimeoffset) RETURNS int IMMUTABLE STRICT LANGUAGE sql
RETURN ('x' || encode(substr(given::bytea, 9, 2), 'hex'))::bit(16)::int - CASE WHEN get_byte(given::bytea,
    8) > 127 THEN 65536 ELSE 0 END;
CREATE FUNCTION ss.to_datetimeoffset(given text) RETURNS ss.datetimeoffset IMMUTABLE STRICT LANGUAGE sql
RETURN ss.offset_of(ss.parsed_moment(given) - ss.parsed_offset(given)::int8 * 600000000, ss.parsed_offset(given));
CREATE FUNCTION ss.to_datetimeoffset(given ss.datetime2) RETURNS ss.datetimeoffset IMMUTABLE STRICT LANGUAGE sql
RETURN ss.offset_of(given::int8, 0);
CREATE FUNCTION ss.to_datetime2(given ss.datetimeoffset) RETURNS ss.datetime2 IMMUTABLE STRICT LANGUAGE sql
RETURN (ss.utc(given) + ss.minutes(given)::int8 * 600000000)::ss.datetime2;
CREATE FUNCTION ss.to_text(given ss.datetimeoffset) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN ss.ticks_text(ss.to_datetime2(given)::int8) || CASE WHEN ss.minutes(given) < 0 THEN ' -' ELSE ' +' END
    || to_char(abs(ss.minutes(given)) / 60, 'FM00') || ':' || to_char(abs(ss.minutes(given)) % 60, 'FM00');
CREATE FUNCTION ss.fit(given ss.datetimeoffset, modifier int) RETURNS ss.datetimeoffset IMMUTABLE STRICT LANGUAGE sql
RETURN ss.offset_of(ss.rounded(ss.utc(given), modifier), ss.minutes(given));
CREATE CAST (ss.datetimeoffset AS ss.datetimeoffset) WITH FUNCTION ss.fit(ss.datetimeoffset, int) AS IMPLICIT;
CREATE CAST (ss.datetime2 AS ss.datetimeoffset) WITH FUNCTION ss.to_datetimeoffset(ss.datetime2) AS IMPLICIT;
CREATE CAST (ss.datetimeoffset AS ss.datetime2) WITH FUNCTION ss.to_datetime2(ss.datetimeoffset) AS ASSIGNMENT;

-- uniqueidentifier: the last group first, then the others from the right ("Comparing GUID and uniqueidentifier
    -- values")

CREATE CAST (uuid AS ss.uniqueidentifier) WITHOUT FUNCTION;
CREATE CAST (ss.uniqueidentifier AS uuid) WITHOUT FUNCTION;
CREATE FUNCTION ss.to_guid(given text) RETURNS ss.uniqueidentifier IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE h text := translate(btrim(given), '{}-', '');
BEGIN
    IF h !~ '^[0-9a-fA-F]{32}' OR given !~ '^\s*\{?[0-9A-Fa-f]{8}-' THEN
        PERFORM ss.fail(8169, 'Conversion failed when converting from a character string to uniqueidentifier.');
    END IF;
    RETURN (substr(h, 21, 12) || substr(h, 17, 4) || substr(h, 15, 2) || substr(h, 13, 2) || substr(h, 11,
        2) || substr(h, 9, 2)
        || substr(h, 7, 2) || substr(h, 5, 2) || substr(h, 3, 2) || substr(h, 1, 2))::uuid::ss.uniqueidentifier;
END $$;
CREATE FUNCTION ss.to_text(given ss.uniqueidentifier) RETURNS text IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE h text := upper(replace((given::uuid)::text, '-', ''));
BEGIN
    RETURN substr(h, 31, 2) || substr(h, 29, 2) || substr(h, 27, 2) || substr(h, 25, 2) || '-' || substr(h, 23, 2)
        || substr(h, 21, 2) || '-' || substr(h, 19, 2) || substr(h, 17, 2) || '-' || substr(h, 13,
            4) || '-' || substr(h, 1, 12);
END $$;
CREATE FUNCTION ss.newid() RETURNS ss.uniqueidentifier LANGUAGE sql RETURN ss.to_guid(gen_random_uuid()::text);

-- From and to characters

DO $$ DECLARE one text; BEGIN
    FOREACH one IN ARRAY ARRAY['ss.nvarchar', 'ss.varchar', 'ss.char', 'ss.nchar', 'text'] LOOP
        EXECUTE format('CREATE CAST (%s AS ss.datetime2) WITH FUNCTION ss.to_datetime2(text) AS IMPLICIT', one);
        EXECUTE format('CREATE CAST (%s AS ss.datetime) WITH FUNCTION ss.to_datetime(text) AS IMPLICIT', one);
        EXECUTE format('CREATE CAST (%s AS ss.smalldatetime) WITH FUNCTION ss.to_smalldatetime(text) AS IMPLICIT',
            one);
        EXECUTE format('CREATE CAST (%s AS ss.time) WITH FUNCTION ss.to_time(text) AS IMPLICIT', one);
        EXECUTE format('CREATE CAST (%s AS ss.datetimeoffset) WITH FUNCTION ss.to_datetimeoffset(text) AS IMPLICIT',
            one);
        EXECUTE format('CREATE CAST (%s AS date) WITH FUNCTION ss.to_date(text) AS IMPLICIT', one);
    END LOOP;
END $$;
DO $$ DECLARE one text; kind text; BEGIN
    FOREACH one IN ARRAY ARRAY['ss.nvarchar', 'ss.varchar', 'ss.char', 'ss.nchar', 'text'] LOOP
        EXECUTE format('CREATE CAST (%s AS ss.uniqueidentifier) WITH FUNCTION ss.to_guid(text) AS IMPLICIT', one);
        FOREACH kind IN ARRAY ARRAY['datetime2', 'datetime', 'smalldatetime', 'time', 'datetimeoffset',
            'uniqueidentifier'] LOOP
            EXECUTE format('CREATE FUNCTION ss.spelled_%2$s(given ss.%1$s) RETURNS %3$s IMMUTABLE STRICT LANGUAGE sql'
                ' RETURN ss.to_text(given)::%3$s', kind,
                replace(one, 'ss.', ''), one);
            EXECUTE format('CREATE CAST (ss.%1$s AS %3$s) WITH FUNCTION ss.spelled_%2$s(ss.%1$s) AS ASSIGNMENT',
                kind, replace(one, 'ss.', ''), one);
        END LOOP;
        IF one <> 'text' THEN
            FOREACH kind IN ARRAY ARRAY['int2', 'int4', 'int8', 'numeric', 'float4', 'float8', 'ss.money', 'ss.bit',
                'ss.tinyint'] LOOP
                EXECUTE format('CREATE CAST (%s AS %s) WITH INOUT AS ASSIGNMENT', one, kind);
                EXECUTE format('CREATE CAST (%s AS %s) WITH INOUT AS ASSIGNMENT', kind, one);
            END LOOP;
            EXECUTE format('CREATE CAST (date AS %s) WITH INOUT AS ASSIGNMENT', one);
        END IF;
        EXECUTE format('CREATE FUNCTION ss.joined(%s, %1$s) RETURNS %1$s IMMUTABLE STRICT LANGUAGE internal'
            ' AS ''textcat''', one);
        EXECUTE format('CREATE OPERATOR ss.+ (LEFTARG = %s, RIGHTARG = %1$s, FUNCTION = ss.joined)', one);
    END LOOP;
END $$;

-- Numbers

CREATE FUNCTION ss.as_bit(int2) RETURNS ss.bit IMMUTABLE STRICT LANGUAGE internal AS 'int2up';
CREATE FUNCTION ss.as_tinyint(int2) RETURNS ss.tinyint IMMUTABLE STRICT LANGUAGE internal AS 'int2up';
CREATE FUNCTION ss.as_money(numeric) RETURNS ss.money IMMUTABLE STRICT LANGUAGE internal AS 'numeric_uplus';
CREATE FUNCTION ss.as_smallmoney(numeric) RETURNS ss.smallmoney IMMUTABLE STRICT LANGUAGE internal AS 'numeric_uplus';
CREATE FUNCTION ss.within(given numeric, low numeric, high numeric, kind text) RETURNS numeric IMMUTABLE STRICT
    LANGUAGE plpgsql AS $$
BEGIN
    IF given < low OR given > high THEN
        PERFORM ss.fail(CASE kind WHEN 'tinyint' THEN 220 ELSE 8115 END, CASE kind
            WHEN 'tinyint' THEN format('Arithmetic overflow error for data type tinyint, value = %s.', given)
            ELSE format('Arithmetic overflow error converting numeric to data type %s.', kind) END);
    END IF;
    RETURN given;
END $$;
DO $$ DECLARE one text; kind text; made text; BEGIN
    FOREACH one IN ARRAY ARRAY['int2', 'int4', 'int8', 'numeric', 'float4', 'float8'] LOOP
        FOREACH kind IN ARRAY ARRAY['bit', 'tinyint', 'money', 'smallmoney'] LOOP
            made := CASE kind WHEN 'bit' THEN '(given <> 0)::int::int2'
                WHEN 'tinyint' THEN 'ss.within(trunc(given::numeric), 0, 255, ''tinyint'')::int2'
                WHEN 'money' THEN
                    'ss.within(round(given::numeric, 4), -922337203685477.5808, 922337203685477.5807, ''money'')'
                ELSE 'ss.within(round(given::numeric, 4), -214748.3648, 214748.3647, ''smallmoney'')' END;
            EXECUTE format('CREATE FUNCTION ss.to_%2$s(given %1$s) RETURNS ss.%2$s IMMUTABLE STRICT LANGUAGE sql'
                ' RETURN ss.as_%2$s(%3$s)', one, kind, made);
            EXECUTE format('CREATE CAST (%1$s AS ss.%2$s) WITH FUNCTION ss.to_%2$s(%1$s) AS ASSIGNMENT', one, kind);
        END LOOP;
    END LOOP;
END $$;
CREATE FUNCTION ss.to_int(given ss.bit) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql RETURN given::int2::int4;
CREATE FUNCTION ss.to_int(given ss.tinyint) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql RETURN given::int2::int4;
CREATE CAST (ss.bit AS int4) WITH FUNCTION ss.to_int(ss.bit) AS ASSIGNMENT;
CREATE CAST (ss.tinyint AS int4) WITH FUNCTION ss.to_int(ss.tinyint) AS ASSIGNMENT;

-- Binary: binary(n) is filled up with zeros, both are cut

CREATE FUNCTION ss.fit(given ss.varbinary, modifier int) RETURNS ss.varbinary IMMUTABLE STRICT LANGUAGE sql
RETURN substr(given::bytea, 1, modifier - 4)::ss.varbinary;
CREATE FUNCTION ss.fit(given ss.binary, modifier int) RETURNS ss.binary IMMUTABLE STRICT LANGUAGE sql
RETURN substr(given::bytea || decode(repeat('00', greatest(0, modifier - 4 - octet_length(given::bytea))), 'hex'), 1,
    modifier - 4)::ss.binary;
CREATE CAST (ss.varbinary AS ss.varbinary) WITH FUNCTION ss.fit(ss.varbinary, int) AS IMPLICIT;
CREATE CAST (ss.binary AS ss.binary) WITH FUNCTION ss.fit(ss.binary, int) AS IMPLICIT;
CREATE FUNCTION ss.to_binary(given int4) RETURNS ss.varbinary IMMUTABLE STRICT LANGUAGE sql
    RETURN int4send(given)::ss.varbinary;
CREATE FUNCTION ss.to_binary(given int8) RETURNS ss.varbinary IMMUTABLE STRICT LANGUAGE sql
    RETURN int8send(given)::ss.varbinary;
CREATE FUNCTION ss.to_int8(given ss.varbinary) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql
RETURN ('x' || lpad(right(encode(given::bytea, 'hex'), 16), 16, '0'))::bit(64)::int8;
CREATE FUNCTION ss.to_binary_filled(given int4) RETURNS ss.binary IMMUTABLE STRICT LANGUAGE sql
    RETURN int4send(given)::ss.binary;
CREATE CAST (int4 AS ss.binary) WITH FUNCTION ss.to_binary_filled(int4);
CREATE CAST (int4 AS ss.varbinary) WITH FUNCTION ss.to_binary(int4);
CREATE CAST (int8 AS ss.varbinary) WITH FUNCTION ss.to_binary(int8);
CREATE CAST (ss.varbinary AS int8) WITH FUNCTION ss.to_int8(ss.varbinary);
CREATE FUNCTION ss.to_varbinary(given ss.varchar) RETURNS ss.varbinary IMMUTABLE STRICT LANGUAGE sql
RETURN convert_to(given::text, 'WIN1252')::ss.varbinary;
CREATE FUNCTION ss.to_varbinary(given ss.uniqueidentifier) RETURNS ss.varbinary IMMUTABLE STRICT
    LANGUAGE plpgsql AS $$
DECLARE b bytea := uuid_send(given::uuid);
BEGIN RETURN substr(b, 13, 4) || substr(b, 11, 2) || substr(b, 9, 2) || substr(b, 7, 2) || substr(b, 1, 6); END $$;
CREATE CAST (ss.varchar AS ss.varbinary) WITH FUNCTION ss.to_varbinary(ss.varchar);
CREATE CAST (ss.uniqueidentifier AS ss.varbinary) WITH FUNCTION ss.to_varbinary(ss.uniqueidentifier);

-- Bytes

CREATE FUNCTION ss.reversed(given bytea) RETURNS bytea IMMUTABLE STRICT LANGUAGE sql
RETURN (SELECT decode(string_agg(lpad(to_hex(get_byte(given, i)), 2, '0'), '' ORDER BY i DESC), 'hex')
    FROM generate_series(0, octet_length(given) - 1) AS i);
CREATE FUNCTION ss.utf16_of_any(given text) RETURNS bytea IMMUTABLE STRICT LANGUAGE sql
RETURN coalesce((SELECT string_agg(CASE WHEN ascii(c) < 65536 THEN ss.reversed(int2send((ascii(c) - CASE
    WHEN ascii(c) > 32767 THEN 65536 ELSE 0 END)::int2))
    ELSE ss.reversed(int2send((55296 + (ascii(c) - 65536) / 1024 - 65536)::int2)) || ss.reversed(int2send((56320 +
        (ascii(c) - 65536) % 1024 - 65536)::int2)) END, '' ORDER BY n)
    FROM regexp_split_to_table(given, '') WITH ORDINALITY AS t (c, n) WHERE c <> ''), '');
CREATE FUNCTION ss.utf16(given text) RETURNS bytea IMMUTABLE STRICT LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(given) = length(given) THEN
        RETURN decode(regexp_replace(encode(convert_to(given, 'UTF8'), 'hex'), '(..)', '\100', 'g'), 'hex');
    END IF;
    RETURN ss.utf16_of_any(given);
END $$;
