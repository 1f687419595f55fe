-- Collations by their names: CI and AI by ICU's strength, BIN and BIN2 by code point.
DO $$ DECLARE one text; BEGIN
    FOREACH one IN ARRAY ARRAY['SQL_Latin1_General_CP1_CI_AS', 'SQL_Latin1_General_CP1_CS_AS',
        'SQL_Latin1_General_CP1_CI_AI', 'Latin1_General_CI_AS', 'Latin1_General_CS_AS', 'Latin1_General_CI_AI',
        'Latin1_General_100_CI_AS', 'Latin1_General_100_CS_AS', 'Latin1_General_100_CI_AI',
            'Latin1_General_100_CI_AS_SC', 'Latin1_General_100_CI_AS_SC_UTF8', 'Latin1_General_100_CS_AS_SC_UTF8',
        'Cyrillic_General_CI_AS', 'Japanese_CI_AS', 'Modern_Spanish_CI_AS', 'French_CI_AI',
            'Finnish_Swedish_CI_AS'] LOOP
        EXECUTE format('CREATE COLLATION ss.%I (provider = icu, locale = %L, deterministic = %s)', one,
            'und-u-ks-' || CASE WHEN one LIKE '%\_CS%' THEN 'level3' WHEN one LIKE '%\_AI%' THEN 'level1'
                ELSE 'level2' END, CASE WHEN one LIKE '%\_CS%' THEN 'true' ELSE 'false' END);
    END LOOP;
    FOREACH one IN ARRAY ARRAY['Latin1_General_BIN', 'Latin1_General_BIN2', 'Latin1_General_100_BIN2',
        'Latin1_General_100_BIN2_UTF8', 'SQL_Latin1_General_CP850_BIN2', 'Cyrillic_General_BIN2'] LOOP
        EXECUTE format('CREATE COLLATION ss.%I FROM pg_catalog."C"', one);
    END LOOP;
END $$;
