-- A film rental in the shapes of Pagila (the Postgres port of Sakila), made for this test: enum, domain, arrays, tsvector, triggers,
-- foreign keys with cascades, a table partitioned by month, views.  The rows come from generate_series.
CREATE TYPE mpaa_rating AS ENUM ('G', 'PG', 'PG-13', 'R', 'NC-17');
CREATE DOMAIN "year" AS integer CHECK (VALUE BETWEEN 1901 AND 2155);

CREATE FUNCTION last_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.last_update = clock_timestamp();
  RETURN NEW;
END $$;

CREATE TABLE actor (
  actor_id serial PRIMARY KEY, first_name text NOT NULL, last_name text NOT NULL,
  last_update timestamptz NOT NULL DEFAULT now());
CREATE TABLE language (language_id smallserial PRIMARY KEY, name character(20) NOT NULL);
CREATE TABLE category (category_id smallserial PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE film (
  film_id serial PRIMARY KEY, title text NOT NULL, description text, release_year "year",
  language_id smallint NOT NULL REFERENCES language ON UPDATE CASCADE, rental_duration smallint NOT NULL DEFAULT 3,
  rental_rate numeric(4,2) NOT NULL DEFAULT 4.99, length smallint, replacement_cost numeric(5,2) NOT NULL DEFAULT 19.99,
  rating mpaa_rating DEFAULT 'G', special_features text[], fulltext tsvector NOT NULL,
  revenue_projection numeric(7,2) GENERATED ALWAYS AS (rental_duration * rental_rate) STORED,
  last_update timestamptz NOT NULL DEFAULT now());
CREATE TABLE film_actor (
  actor_id int NOT NULL REFERENCES actor ON UPDATE CASCADE ON DELETE CASCADE,
  film_id int NOT NULL REFERENCES film ON UPDATE CASCADE ON DELETE CASCADE,
  last_update timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (actor_id, film_id));
CREATE TABLE film_category (
  film_id int NOT NULL REFERENCES film ON DELETE CASCADE, category_id smallint NOT NULL REFERENCES category,
  PRIMARY KEY (film_id, category_id));
CREATE TABLE customer (
  customer_id serial PRIMARY KEY, first_name text NOT NULL, last_name text NOT NULL, email text,
  activebool boolean NOT NULL DEFAULT true, create_date date NOT NULL DEFAULT CURRENT_DATE, picture bytea,
  last_update timestamptz NOT NULL DEFAULT now());
CREATE TABLE rental (
  rental_id serial PRIMARY KEY, rental_date timestamptz NOT NULL, film_id int REFERENCES film ON DELETE SET NULL,
  customer_id int NOT NULL REFERENCES customer ON UPDATE CASCADE, return_date timestamptz, lent_for tstzrange,
  last_update timestamptz NOT NULL DEFAULT now());
CREATE TABLE payment (
  payment_id bigserial, customer_id int NOT NULL REFERENCES customer ON UPDATE CASCADE,
  rental_id int REFERENCES rental ON UPDATE CASCADE ON DELETE SET NULL, amount numeric(5,2) NOT NULL,
  payment_date timestamptz NOT NULL, PRIMARY KEY (payment_date, payment_id)) PARTITION BY RANGE (payment_date);
CREATE TABLE payment_p2022_01 PARTITION OF payment FOR VALUES FROM ('2022-01-01 00:00+00') TO ('2022-02-01 00:00+00');
CREATE TABLE payment_p2022_02 PARTITION OF payment FOR VALUES FROM ('2022-02-01 00:00+00') TO ('2022-03-01 00:00+00');
CREATE TABLE payment_p2022_03 PARTITION OF payment FOR VALUES FROM ('2022-03-01 00:00+00') TO ('2022-04-01 00:00+00');
CREATE TABLE payment_later PARTITION OF payment DEFAULT;
CREATE TABLE staff_note (said_at timestamptz NOT NULL, said text);
ALTER TABLE staff_note REPLICA IDENTITY FULL;

CREATE TRIGGER last_updated BEFORE UPDATE ON actor FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON film FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON film_actor FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON rental FOR EACH ROW EXECUTE FUNCTION last_updated();
CREATE TRIGGER film_fulltext BEFORE INSERT OR UPDATE ON film FOR EACH ROW
  EXECUTE FUNCTION tsvector_update_trigger(fulltext, 'pg_catalog.english', title, description);

INSERT INTO actor (first_name, last_name) SELECT 'Actor ' || n, 'Ünlü ' || n FROM generate_series(1, 200) n;
INSERT INTO language (name) VALUES ('English'), ('Türkçe'), ('日本語');
INSERT INTO category (name) SELECT 'Category ' || n FROM generate_series(1, 16) n;
INSERT INTO film (title, description, release_year, language_id, length, rating, special_features)
  SELECT 'Film ' || n, repeat(md5(n::text) || ' running dogs ', 1 + n % 400), 1950 + n % 70, 1 + n % 3, 60 + n % 90,
    (enum_range(NULL::mpaa_rating))[1 + n % 5],
    CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN '{}' WHEN 2 THEN '{Trailers,"Deleted, Scenes"}' ELSE ARRAY[NULL, 'say "cut"', '\'] END
  FROM generate_series(1, 1000) n;
INSERT INTO film_actor (film_id, actor_id) SELECT 1 + n % 1000, 1 + (n * 7 + n / 1000) % 200 FROM generate_series(1, 5000) n
  ON CONFLICT DO NOTHING;
INSERT INTO film_category SELECT n, 1 + n % 16 FROM generate_series(1, 1000) n;
INSERT INTO customer (first_name, last_name, email, picture)
  SELECT 'Jô ' || n, 'Smith', 'jo' || n || '@example.com', decode(md5(n::text), 'hex') FROM generate_series(1, 600) n;
INSERT INTO rental (rental_date, film_id, customer_id, return_date, lent_for)
  SELECT at, 1 + n % 1000, 1 + n % 600, CASE WHEN n % 5 > 0 THEN at + interval '3 days' END, tstzrange(at, at + interval '3 days')
  FROM (SELECT n, timestamptz '2022-01-01 00:00+00' + n * interval '9 minutes 0.000123 seconds' AS at FROM generate_series(1, 16000) n) r;
INSERT INTO payment (customer_id, rental_id, amount, payment_date)
  SELECT customer_id, rental_id, rental_id % 12 + 0.99, rental_date FROM rental;
INSERT INTO staff_note SELECT '2022-01-01 00:00+00'::timestamptz + n % 50 * interval '1 hour', nullif('note ' || n % 40, 'note 7')
  FROM generate_series(1, 2000) n;

CREATE VIEW film_list AS SELECT film_id, title FROM film;
CREATE MATERIALIZED VIEW revenue AS SELECT customer_id, sum(amount) FROM payment GROUP BY customer_id;
