-- What Oracle's SQL does and Postgres' does not, on the forms that engine.kinds describes.
CREATE SCHEMA IF NOT EXISTS o;
CREATE SCHEMA IF NOT EXISTS ora;
CREATE SEQUENCE IF NOT EXISTS ora.n;
SELECT nextval('ora.n');  -- what is numbered after "the last value" has a higher one, the first change too
CREATE TABLE IF NOT EXISTS ora.commits (xid xid8 PRIMARY KEY, scn bigint NOT NULL, at timestamptz NOT NULL,
  transaction text NOT NULL);
CREATE INDEX IF NOT EXISTS commits_by_scn ON ora.commits (scn);
CREATE TABLE IF NOT EXISTS ora.catalog (only_one boolean PRIMARY KEY DEFAULT true, doc bytea NOT NULL);

CREATE OR REPLACE FUNCTION ora.cat(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN a IS NULL THEN b WHEN b IS NULL THEN a ELSE a || b END $$;

CREATE OR REPLACE FUNCTION ora.sig(v numeric, digits int) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE places int;
BEGIN
  IF v IS NULL OR v = 0 THEN RETURN v; END IF;
  places := digits - 1 - floor(log(abs(v)))::int;
  IF floor(log(abs(round(v, places))))::int > floor(log(abs(v)))::int THEN places := places - 1; END IF;
  RETURN trim_scale(round(v, places));
END $$;

CREATE OR REPLACE FUNCTION ora.div(a numeric, b numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS
$$ SELECT ora.sig(round(a, 100) / b, 40) $$;

CREATE OR REPLACE FUNCTION ora.num_char(v numeric) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT regexp_replace(trim_scale(v)::text, '^(-?)0\.', '\1.') $$;

CREATE OR REPLACE FUNCTION ora.date_ts(v timestamp) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT to_char(v, 'YYYY-MM-DD HH24:MI:SS') || '.000000000' $$;

CREATE OR REPLACE FUNCTION ora.ts_date(v text) RETURNS timestamp LANGUAGE sql IMMUTABLE AS
$$ SELECT substr(v, 1, 19)::timestamp $$;

CREATE OR REPLACE FUNCTION ora.shift(v text, by interval) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT to_char(substr(v, 1, 19)::timestamp + by, 'YYYY-MM-DD HH24:MI:SS') || substr(v, 20) $$;

CREATE OR REPLACE FUNCTION ora.local(v text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT ora.shift(split_part(v, '|', 1), split_part(v, '|', 2)::interval) $$;

CREATE OR REPLACE FUNCTION ora.ts_round(v text, digits int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN v IS NULL OR digits >= 9 THEN v ELSE (
    SELECT CASE WHEN f >= 1000000000
      THEN to_char(substr(v, 1, 19)::timestamp + interval '1 second', 'YYYY-MM-DD HH24:MI:SS') || '.000000000'
      ELSE substr(v, 1, 20) || lpad(f::text, 9, '0') END || substr(v, 30)
    FROM (SELECT round(substr(v, 21, 9)::numeric, digits - 9)::bigint AS f) AS rounded) END $$;

CREATE OR REPLACE FUNCTION ora.now() RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '000' $$;

CREATE OR REPLACE FUNCTION ora.today() RETURNS timestamp LANGUAGE sql VOLATILE AS
$$ SELECT date_trunc('second', clock_timestamp() AT TIME ZONE 'UTC') $$;

CREATE OR REPLACE FUNCTION ora.ds_char(v numeric, digits int, scale int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN v < 0 THEN '-' ELSE '+' END || lpad(div(abs(v), 86400000000000)::text, digits, '0') || ' '
    || to_char(make_interval(secs => div(mod(abs(v), 86400000000000), 1000000000)::double precision), 'HH24:MI:SS')
    || CASE WHEN scale > 0 THEN '.' || left(lpad(mod(abs(v), 1000000000)::bigint::text, 9, '0'), scale) ELSE '' END $$;

CREATE OR REPLACE FUNCTION ora.ym_char(v numeric, digits int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN v < 0 THEN '-' ELSE '+' END || lpad(div(abs(v), 12)::text, digits, '0') || '-'
    || lpad(mod(abs(v), 12)::text, 2, '0') $$;

CREATE OR REPLACE FUNCTION ora.substr(v text, start numeric, size numeric DEFAULT NULL) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT nullif(CASE WHEN size IS NULL THEN substr(v, f) WHEN size < 1 THEN NULL ELSE substr(v, f, trunc(size)::int) END,
    '') FROM (SELECT CASE WHEN start = 0 THEN 1 WHEN start < 0 THEN length(v) + trunc(start)::int + 1
      ELSE trunc(start)::int END AS f) AS first WHERE f > 0 $$;

-- A ROWID's 18 characters: object, file 7, block and row of the row's number.
CREATE OR REPLACE FUNCTION ora.sixty_four(v bigint, digits int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT string_agg(substr('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/',
    ((v >> (6 * at)) & 63)::int + 1, 1), '' ORDER BY at DESC) FROM generate_series(0, digits - 1) AS at $$;
CREATE OR REPLACE FUNCTION ora.rowid(obj bigint, rid bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT ora.sixty_four(obj, 6) || 'AAH' || ora.sixty_four(rid >> 8, 6) || ora.sixty_four(rid & 255, 3) $$;

CREATE OR REPLACE FUNCTION ora.fail(number int, words text) RETURNS boolean LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION USING ERRCODE = 'OR000', MESSAGE = number || ' ' || words; END $$;
