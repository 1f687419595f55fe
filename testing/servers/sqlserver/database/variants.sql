-- sql_variant: the bytes of TDS ([MS-TDS] 2.2.5.5.3): base type, number of properties, properties, value.
-- A text has the collation SQL_Latin1_General_CP1_CI_AS, and a moment seven digits after the second.

CREATE FUNCTION ss.variant(head bytea, given bytea) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN (head || given)::ss.sql_variant;
CREATE FUNCTION ss.little(given int8, size int) RETURNS bytea IMMUTABLE STRICT LANGUAGE sql
RETURN substr(ss.reversed(int8send(given)), 1, size);
CREATE FUNCTION ss.number_of(given bytea) RETURNS numeric IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE made numeric := 0; few int8 := 0;
BEGIN
    IF octet_length(given) < 8 THEN
        FOR i IN REVERSE octet_length(given) - 1 .. 0 LOOP
            few := few * 256 + get_byte(given, i);
        END LOOP;
        RETURN few;
    END IF;
    FOR i IN REVERSE octet_length(given) - 1 .. 0 LOOP
        made := made * 256 + get_byte(given, i);
    END LOOP;
    RETURN made;
END $$;
CREATE FUNCTION ss.signed_of(given bytea) RETURNS numeric IMMUTABLE STRICT LANGUAGE sql
RETURN trunc(ss.number_of(given) - CASE WHEN get_byte(given, octet_length(given) - 1) > 127 THEN power(256::numeric,
    octet_length(given)) ELSE 0 END);
CREATE FUNCTION ss.digits_of(given numeric, size int) RETURNS bytea IMMUTABLE STRICT LANGUAGE sql
RETURN (SELECT decode(string_agg(lpad(to_hex(mod(div(given, power(256::numeric, i)), 256)::int), 2, '0'), ''
    ORDER BY i), 'hex') FROM generate_series(0, size - 1) AS i);

CREATE FUNCTION ss.to_variant(given ss.bit) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x3200', ss.little(given::int2::int8, 1));
CREATE FUNCTION ss.to_variant(given ss.tinyint) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x3000', ss.little(given::int2::int8, 1));
CREATE FUNCTION ss.to_variant(given int2) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x3400', ss.little(given, 2));
CREATE FUNCTION ss.to_variant(given int4) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x3800', ss.little(given, 4));
CREATE FUNCTION ss.to_variant(given int8) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x7f00', ss.little(given, 8));
CREATE FUNCTION ss.to_variant(given float4) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x3b00', ss.reversed(float4send(given)));
CREATE FUNCTION ss.to_variant(given float8) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x3e00', ss.reversed(float8send(given)));
CREATE FUNCTION ss.to_variant(given numeric) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x6a0226'::bytea || ss.little(scale(given), 1) || ss.little(CASE WHEN given < 0 THEN 0 ELSE 1 END,
    1), ss.digits_of(trunc(abs(given) * power(10::numeric, scale(given))), 16));
CREATE FUNCTION ss.to_variant(given ss.money) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x3c00', ss.little((given::numeric * 10000)::int8 >> 32, 4) || ss.little((given::numeric *
    10000)::int8, 4));
CREATE FUNCTION ss.to_variant(given ss.smallmoney) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x7a00', ss.little((given::numeric * 10000)::int8, 4));
CREATE FUNCTION ss.to_variant(given date) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x2800', ss.little(given - DATE '0001-01-01', 3));
CREATE FUNCTION ss.to_variant(given ss.time) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x290107', ss.little(given::int8, 5));
CREATE FUNCTION ss.to_variant(given ss.datetime) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x3d00', ss.little(floor(given::int8 / 25920000.0)::int8, 4) || ss.little(mod(mod(given::int8,
    25920000) + 25920000, 25920000), 4));
CREATE FUNCTION ss.to_variant(given ss.smalldatetime) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x3a00', ss.little(given::int8 / 1440, 2) || ss.little(given::int8 % 1440, 2));
CREATE FUNCTION ss.to_variant(given ss.datetime2) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x2a0107', ss.little(given::int8 % 864000000000, 5) || ss.little(given::int8 / 864000000000, 3));
CREATE FUNCTION ss.to_variant(given ss.datetimeoffset) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x2b0107', ss.little(ss.utc(given) % 864000000000, 5) || ss.little(ss.utc(given) / 864000000000, 3)
    || ss.little(ss.minutes(given), 2));
CREATE FUNCTION ss.to_variant(given ss.uniqueidentifier) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\x2400', ss.to_varbinary(given)::bytea);
CREATE FUNCTION ss.to_variant(given ss.char) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\xaf070904d00034401f', convert_to(given::text, 'WIN1252'));
CREATE FUNCTION ss.to_variant(given ss.varchar) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\xa7070904d00034401f', convert_to(given::text, 'WIN1252'));
CREATE FUNCTION ss.to_variant(given ss.nchar) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\xef070904d00034401f', ss.utf16(given::text));
CREATE FUNCTION ss.to_variant(given ss.nvarchar) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\xe7070904d00034401f', ss.utf16(given::text));
CREATE FUNCTION ss.to_variant(given ss.binary) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\xad02401f', given::bytea);
CREATE FUNCTION ss.to_variant(given ss.varbinary) RETURNS ss.sql_variant IMMUTABLE STRICT LANGUAGE sql
RETURN ss.variant('\xa502401f', given::bytea);

-- And back.  What the chart of conversions has and no test needs is refused.

CREATE FUNCTION ss.base_of(given ss.sql_variant) RETURNS text IMMUTABLE STRICT LANGUAGE sql
RETURN CASE get_byte(given::bytea, 0) WHEN 50 THEN 'bit' WHEN 48 THEN 'tinyint' WHEN 52 THEN 'smallint' WHEN 56 THEN
    'int' WHEN 127 THEN 'bigint' WHEN 59 THEN 'real' WHEN 62 THEN 'float' WHEN 106 THEN 'decimal' WHEN 60 THEN 'money'
    WHEN 122 THEN 'smallmoney' WHEN 40 THEN 'date' WHEN 41 THEN 'time' WHEN 61 THEN 'datetime' WHEN 58 THEN
    'smalldatetime' WHEN 42 THEN 'datetime2' WHEN 43 THEN 'datetimeoffset' WHEN 36 THEN 'uniqueidentifier' WHEN 175
    THEN 'char' WHEN 167 THEN 'varchar' WHEN 239 THEN 'nchar' WHEN 231 THEN 'nvarchar' WHEN 173 THEN 'binary' WHEN 165
    THEN 'varbinary' END;
CREATE FUNCTION ss.sql_variant_property(given ss.sql_variant, property text) RETURNS ss.sql_variant IMMUTABLE STRICT
    LANGUAGE sql
RETURN CASE lower(property) WHEN 'basetype' THEN ss.to_variant(ss.base_of(given)::ss.nvarchar)
    ELSE ss.to_variant(ss.fail(195, 'The emulator knows no property of a sql_variant but BaseType.')) END;
CREATE FUNCTION ss.body_of(given ss.sql_variant, VARIADIC bases text[]) RETURNS bytea IMMUTABLE STRICT
    LANGUAGE plpgsql AS $$
BEGIN
    IF ss.base_of(given) <> ALL (bases) THEN
        PERFORM ss.fail(529, format('The emulator does not know this conversion of a sql_variant that is %s.',
            ss.base_of(given)));
    END IF;
    RETURN substr(given::bytea, 3 + get_byte(given::bytea, 1));
END $$;
-- The number of these bits, by its exponent and fraction: Postgres reads none.
CREATE FUNCTION ss.float_of(given bytea, fraction int, bias int) RETURNS float8 IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE
    bits numeric := ss.number_of(given);
    one numeric := power(2::numeric, fraction);
    exponent int := mod(div(bits, one), bias * 2 + 2)::int;
BEGIN
    RETURN CASE WHEN get_byte(given, octet_length(given) - 1) > 127 THEN -1 ELSE 1 END::float8
        * (mod(bits, one) + CASE WHEN exponent > 0 THEN one ELSE 0 END)::float8
        * power(2::float8, greatest(exponent, 1) - bias - fraction);
END $$;
CREATE FUNCTION ss.text_of_utf16(given bytea) RETURNS text IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE made text := ''; unit int; high int := 0; digits text := encode(given, 'hex');
BEGIN
    IF digits ~ '^([0-7].00)*$' THEN
        RETURN convert_from(decode(regexp_replace(digits, '(..)00', '\1', 'g'), 'hex'), 'UTF8');
    END IF;
    FOR i IN 0 .. octet_length(given) / 2 - 1 LOOP
        unit := get_byte(given, i * 2) + get_byte(given, i * 2 + 1) * 256;
        IF unit BETWEEN 55296 AND 56319 THEN
            high := unit - 55296;
        ELSE
            made := made || chr(CASE WHEN unit BETWEEN 56320 AND 57343 THEN 65536 + high * 1024 + unit - 56320
                ELSE unit END);
        END IF;
    END LOOP;
    RETURN made;
END $$;
CREATE FUNCTION ss.variant_to_nvarchar(given ss.sql_variant) RETURNS ss.nvarchar IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE
    base text := ss.base_of(given);
    body bytea := ss.body_of(given, 'bit', 'tinyint', 'smallint', 'int', 'bigint', 'decimal', 'uniqueidentifier',
        'char', 'varchar', 'nchar', 'nvarchar');
    scale int;
BEGIN
    IF base IN ('bit', 'tinyint') THEN RETURN ss.number_of(body)::text; END IF;
    IF base IN ('smallint', 'int', 'bigint') THEN RETURN ss.signed_of(body)::text; END IF;
    IF base IN ('char', 'varchar') THEN RETURN convert_from(body, 'WIN1252'); END IF;
    IF base IN ('nchar', 'nvarchar') THEN RETURN ss.text_of_utf16(body); END IF;
    IF base = 'uniqueidentifier' THEN
        RETURN upper(regexp_replace(encode(ss.reversed(substr(body, 1, 4)) || ss.reversed(substr(body, 5, 2))
            || ss.reversed(substr(body, 7, 2)) || substr(body, 9), 'hex'), '^(.{8})(.{4})(.{4})(.{4})',
            '\1-\2-\3-\4-'));
    END IF;
    scale := get_byte(given::bytea, 3);
    RETURN ((get_byte(body, 0) * 2 - 1) * ss.number_of(substr(body, 2)) * ('1e-' || scale)::numeric)::text;
END $$;
CREATE FUNCTION ss.variant_to_varbinary(given ss.sql_variant) RETURNS ss.varbinary IMMUTABLE STRICT LANGUAGE sql
RETURN ss.body_of(given, 'binary', 'varbinary')::ss.varbinary;
CREATE FUNCTION ss.variant_to_float(given ss.sql_variant) RETURNS float8 IMMUTABLE STRICT LANGUAGE sql
RETURN CASE WHEN ss.base_of(given) = 'real' THEN ss.float_of(ss.body_of(given, 'real'), 23, 127)
    ELSE ss.float_of(ss.body_of(given, 'float'), 52, 1023) END;
CREATE FUNCTION ss.variant_to_money(given ss.sql_variant) RETURNS ss.money IMMUTABLE STRICT LANGUAGE sql
RETURN ss.to_money(CASE WHEN ss.base_of(given) = 'smallmoney' THEN ss.signed_of(ss.body_of(given, 'smallmoney'))
    ELSE ss.signed_of(substr(ss.body_of(given, 'money'), 5) || substr(ss.body_of(given, 'money'), 1, 4)) END * 0.0001);
CREATE FUNCTION ss.variant_to_date(given ss.sql_variant) RETURNS date IMMUTABLE STRICT LANGUAGE sql
RETURN DATE '0001-01-01' + ss.number_of(ss.body_of(given, 'date'))::int;
CREATE FUNCTION ss.variant_to_time(given ss.sql_variant) RETURNS ss.time IMMUTABLE STRICT LANGUAGE sql
RETURN ss.number_of(ss.body_of(given, 'time'))::int8::ss.time;
CREATE FUNCTION ss.variant_to_datetime(given ss.sql_variant) RETURNS ss.datetime IMMUTABLE STRICT LANGUAGE sql
RETURN (CASE WHEN ss.base_of(given) = 'smalldatetime' THEN ss.number_of(substr(ss.body_of(given, 'smalldatetime'), 1,
    2)) * 25920000 + ss.number_of(substr(ss.body_of(given, 'smalldatetime'), 3)) * 18000
    ELSE ss.signed_of(substr(ss.body_of(given, 'datetime'), 1, 4)) * 25920000 + ss.number_of(substr(ss.body_of(given,
        'datetime'), 5)) END)::int8::ss.datetime;
CREATE FUNCTION ss.ticks_of(given bytea) RETURNS int8 IMMUTABLE STRICT LANGUAGE sql
RETURN (ss.number_of(substr(given, 1, 5)) + ss.number_of(substr(given, 6, 3)) * 864000000000)::int8;
CREATE FUNCTION ss.variant_to_datetime2(given ss.sql_variant) RETURNS ss.datetime2 IMMUTABLE STRICT LANGUAGE sql
RETURN ss.ticks_of(ss.body_of(given, 'datetime2'))::ss.datetime2;
CREATE FUNCTION ss.variant_to_datetimeoffset(given ss.sql_variant) RETURNS ss.datetimeoffset IMMUTABLE STRICT
    LANGUAGE sql
RETURN ss.offset_of(ss.ticks_of(ss.body_of(given, 'datetimeoffset')), ss.signed_of(substr(ss.body_of(given,
    'datetimeoffset'), 9))::int);
DO $$ DECLARE one text; BEGIN
    FOREACH one IN ARRAY ARRAY['ss.bit', 'ss.tinyint', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric',
        'ss.money', 'ss.smallmoney', 'date', 'ss.time', 'ss.datetime', 'ss.smalldatetime', 'ss.datetime2',
        'ss.datetimeoffset', 'ss.uniqueidentifier', 'ss.char', 'ss.varchar', 'ss.nchar', 'ss.nvarchar', 'ss.binary',
        'ss.varbinary'] LOOP
        EXECUTE format('CREATE CAST (%1$s AS ss.sql_variant) WITH FUNCTION ss.to_variant(%1$s) AS ASSIGNMENT', one);
    END LOOP;
    FOREACH one IN ARRAY ARRAY['ss.nvarchar nvarchar', 'ss.varbinary varbinary', 'float8 float', 'ss.money money',
        'date date', 'ss.time time', 'ss.datetime datetime', 'ss.datetime2 datetime2',
        'ss.datetimeoffset datetimeoffset'] LOOP
        EXECUTE format('CREATE CAST (ss.sql_variant AS %s) WITH FUNCTION ss.variant_to_%s(ss.sql_variant)',
            split_part(one, ' ', 1), split_part(one, ' ', 2));
    END LOOP;
END $$;
