-- What sys.sp_cdc_enable_db makes ("Change Data Capture Tables (Transact-SQL)").
CREATE SCHEMA cdc;
CREATE TABLE cdc.change_tables (object_id int4 PRIMARY KEY, version int4, source_object_id int4,
    capture_instance ss.nvarchar(128) COLLATE ss."SQL_Latin1_General_CP1_CI_AS" NOT NULL UNIQUE,
    start_lsn ss."binary"(10), end_lsn ss."binary"(10), supports_net_changes ss.bit, has_drop_pending ss.bit,
        role_name ss.nvarchar(128), index_name ss.nvarchar(128), filegroup_name ss.nvarchar(128),
    create_date ss.datetime, partition_switch ss.bit NOT NULL DEFAULT 0::ss.bit);
CREATE TABLE cdc.captured_columns (object_id int4, column_name ss.nvarchar(128) COLLATE
    ss."SQL_Latin1_General_CP1_CI_AS", column_id int4, column_type ss.nvarchar(128), column_ordinal int4,
    is_computed ss.bit,
    masking_function ss.nvarchar(4000), PRIMARY KEY (object_id, column_ordinal));
CREATE TABLE cdc.index_columns (object_id int4, column_name ss.nvarchar(128), index_ordinal ss.tinyint,
    column_id int4);
CREATE TABLE cdc.ddl_history (source_object_id int4, object_id int4, required_column_update ss.bit,
    ddl_command ss.nvarchar, ddl_lsn ss."binary"(10), ddl_time ss.datetime);
CREATE TABLE cdc.lsn_time_mapping (start_lsn ss."binary"(10) PRIMARY KEY, tran_begin_time ss.datetime,
    tran_end_time ss.datetime, tran_id ss."varbinary"(10), tran_begin_lsn ss."binary"(10));
CREATE VIEW cdc.cdc_jobs AS SELECT job_type, job_id, maxtrans, maxscans, continuous, pollinginterval, retention,
    threshold FROM msdb.cdc_jobs;  -- of Azure SQL Database only (language/names.py)
GRANT USAGE ON SCHEMA cdc TO PUBLIC;
CREATE PUBLICATION cdc;
INSERT INTO ss.jobs (kind) VALUES ('capture'), ('cleanup') ON CONFLICT DO NOTHING;
