"""ODBC by pyodbc, with and without cursors of the driver's own: each line of the output is a step that passed."""

import os

import pyodbc


def passed(step, holds):
    """Say that a step passed, or fail."""
    assert holds, step
    print(step)


for extra in ("", "UseDeclareFetch=1;Fetch=2;", "UseServerSidePrepare=0;"):
    connection = pyodbc.connect(
        f"Driver={{PostgreSQL Unicode}};Server=localhost;Port={os.environ['PGPORT']};Database={os.environ['PGDATABASE']};"
        f"UID={os.environ['PGUSER']};PWD={os.environ['PGPASSWORD']};SSLmode=require;{extra}"
    )
    cursor = connection.cursor()
    name = extra or "plain"
    passed(f"{name}: tables", any(row.table_name == "stays" for row in cursor.tables(tableType="TABLE")))
    passed(f"{name}: columns", "age" in {row.column_name for row in cursor.columns(table="stays")})
    cursor.execute("SELECT ward, count(*) AS n FROM stays GROUP BY ward ORDER BY ward")
    passed(f"{name}: a question", [row[0] for row in cursor.fetchall()] == ["children", "medicine", "surgery"])
    cursor.execute("SELECT count(*) FROM stays WHERE age >= ? AND sex = ?", 40, "female")
    passed(f"{name}: parameters", cursor.fetchone()[0] > 0)
    try:
        cursor.execute("SELECT * FROM stays").fetchall()
        passed(f"{name}: rows", False)  # noqa: FBT003
    except pyodbc.Error as fault:
        passed(f"{name}: rows are refused", "Rows are never shown" in str(fault))
    connection.rollback()
    connection.close()
