"""The data dictionary and rights.  Database Reference 19c, "Static Data Dictionary Views"; Security Guide 19c,
"Configuring Privilege and Role Authorization".
"""

from __future__ import annotations

from contextlib import closing

from tests.integration.oracle.conftest import Schema


def _granted(schema: Schema, *statements: str) -> None:
    with closing(schema.server.connect()) as session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_columns_keys_and_groups_are_listed(schema: Schema) -> None:
    schema.run("CREATE TABLE parent (id NUMBER(9) CONSTRAINT pk PRIMARY KEY)")
    schema.run(
        'CREATE TABLE "Child" (id NUMBER(9) REFERENCES parent ON DELETE CASCADE, "v" VARCHAR2(10 CHAR) DEFAULT \'x\''
        " NOT NULL, s TIMESTAMP(3), SUPPLEMENTAL LOG GROUP g (id) ALWAYS)"
    )
    assert schema.run(
        "SELECT column_name, data_type, data_length, data_precision, data_scale, nullable, char_length, char_used,"
        " data_default, column_id FROM user_tab_columns WHERE table_name = 'Child' ORDER BY column_id"
    ) == [
        ("ID", "NUMBER", 22, 9, 0, "Y", 0, None, None, 1),
        ("v", "VARCHAR2", 40, None, None, "N", 10, "C", "'x'", 2),
        ("S", "TIMESTAMP(3)", 11, None, 3, "Y", 0, None, None, 3),
    ]
    assert schema.run(
        "SELECT c.constraint_type, c.table_name, k.column_name, c.delete_rule FROM all_constraints c"
        " JOIN all_cons_columns k ON k.owner = c.owner AND k.constraint_name = c.constraint_name"
        " WHERE c.owner = :1 AND c.constraint_type <> 'C' ORDER BY c.constraint_type", schema.name,
    ) == [("P", "PARENT", "ID", None), ("R", "Child", "ID", "CASCADE")]  # fmt: skip
    assert schema.run("SELECT log_group_name, log_group_type, always FROM user_log_groups") == [
        ("G", "USER LOG GROUP", "ALWAYS")
    ]


def test_a_cascade_deletes_the_children_and_the_log_says_so(schema: Schema) -> None:
    schema.run("CREATE TABLE parent (id NUMBER(9) PRIMARY KEY)")
    schema.run("CREATE TABLE child (id NUMBER(9) PRIMARY KEY REFERENCES parent ON DELETE CASCADE)")
    schema.run("INSERT INTO parent VALUES (1)")
    schema.run("INSERT INTO child VALUES (1)")
    assert schema.refused("INSERT INTO child VALUES (2)") == "ORA-02291"
    schema.connection.commit()
    first = schema.scn()
    schema.run("DELETE FROM parent")
    schema.connection.commit()
    assert sorted(redo.split('"')[3] for redo in schema.changes(first)) == ["CHILD", "PARENT"]


def test_who_has_no_right_is_told_that_there_is_no_table(schema: Schema) -> None:
    schema.run("CREATE TABLE t (id NUMBER)")
    _granted(schema, f"CREATE USER {schema.name}_r IDENTIFIED BY secret", f"GRANT CREATE SESSION TO {schema.name}_r")
    reader = Schema(schema.server, f"{schema.name}_R")
    assert reader.run("SELECT table_name FROM all_tables") == []
    assert reader.refused(f"SELECT * FROM {schema.name}.t") == "ORA-00942"
    assert reader.refused("SELECT * FROM v$database") == "ORA-00942"
    assert reader.refused("BEGIN DBMS_LOGMNR.END_LOGMNR; END;") == "ORA-06550"
    assert reader.refused("CREATE TABLE t (id NUMBER)") == "ORA-01031"
    schema.run(f"GRANT SELECT ON t TO {reader.name}")
    assert reader.run(f"SELECT * FROM {schema.name}.t") == []
    assert reader.refused(f"DELETE FROM {schema.name}.t") == "ORA-01031"
    assert reader.refused(f"SELECT * FROM {schema.name}.t AS OF SCN 1000000") == "ORA-01031"
    _granted(schema, f"GRANT SELECT ON SYS.V_$DATABASE TO {reader.name}", f"GRANT FLASHBACK ANY TABLE TO {reader.name}")
    assert reader.run(f"SELECT * FROM {schema.name}.t AS OF SCN {reader.scn()}") == []
    reader.connection.close()


def test_definitions_are_refused_as_there(schema: Schema) -> None:
    schema.run("CREATE TABLE t (id NUMBER(5) PRIMARY KEY, v VARCHAR2(10))")
    schema.run("INSERT INTO t VALUES (1, 'abcdef')")
    assert schema.refused("CREATE TABLE t (id NUMBER)") == "ORA-00955"
    assert schema.refused("ALTER TABLE t MODIFY (v VARCHAR2(3))") == "ORA-01441"
    assert schema.refused("ALTER TABLE t MODIFY (id NUMBER(3))") == "ORA-01440"
    assert schema.refused("ALTER TABLE t ADD (v DATE)") == "ORA-01430"
    assert schema.refused("CREATE TABLE l (c CLOB PRIMARY KEY)") == "ORA-02329"
    assert schema.refused("CREATE TABLE l (c GEOMETRY)") == "ORA-00902"
    schema.run("CREATE TYPE point AS OBJECT (x NUMBER, y NUMBER)")
    schema.run("CREATE TABLE o (id NUMBER, p point)")
    assert schema.one("SELECT data_type, data_type_owner FROM user_tab_cols WHERE column_name = 'P'") == (
        "POINT", schema.name,
    )  # fmt: skip


def test_a_definition_does_not_wait_long_for_an_open_transaction(schema: Schema) -> None:
    schema.run("CREATE TABLE t (id NUMBER)")
    schema.run("INSERT INTO t VALUES (1)")
    other = Schema(schema.server, schema.name)
    assert other.refused("ALTER TABLE t ADD (n NUMBER)") == "ORA-00054"
    schema.connection.commit()
    other.run("ALTER TABLE t ADD (n NUMBER)")
    assert schema.run("SELECT * FROM t") == [(1, None)]
    other.connection.close()
