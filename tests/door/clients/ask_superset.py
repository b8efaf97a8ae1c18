"""Superset by its own HTTP API, in this process: each line of the output is a step that passed."""

import os

from superset.app import create_app

address = f"postgresql+psycopg2://{os.environ['PGUSER']}:{os.environ['PGPASSWORD']}@localhost:{os.environ['PGPORT']}/{os.environ['PGDATABASE']}?sslmode=require"
METRIC = {"expressionType": "SQL", "sqlExpression": "COUNT(*)", "label": "count"}


def passed(step, holds, reply):
    """Say that a step passed, or fail with what Superset said."""
    assert holds, (step, reply.status_code, reply.get_data(as_text=True)[:2000])
    print(step)


app = create_app()
with app.test_client() as client:
    login = {"username": "admin", "password": "admin", "provider": "db"}
    token = client.post("/api/v1/security/login", json=login).json["access_token"]
    headers = {"Authorization": f"Bearer {token}"}

    def post(path, body):
        """Return Superset's reply."""
        return client.post(path, json=body, headers=headers)

    body = {"database_name": "dodona", "sqlalchemy_uri": address, "expose_in_sqllab": True}
    tried = {name: value for name, value in body.items() if name != "expose_in_sqllab"}
    reply = post("/api/v1/database/test_connection/", tried)
    passed("test connection", reply.status_code == 200, reply)
    reply = post("/api/v1/database/", body)
    passed("add database", reply.status_code == 201, reply)
    database = reply.json["id"]
    reply = client.get(f"/api/v1/database/{database}/tables/?q=(schema_name:public)", headers=headers)
    passed("list tables", [row["value"] for row in reply.json["result"]] == ["stays"], reply)
    reply = post("/api/v1/dataset/", {"database": database, "schema": "public", "table_name": "stays"})
    passed("add dataset", reply.status_code == 201, reply)
    dataset = reply.json["id"]
    reply = client.get(f"/api/v1/dataset/{dataset}", headers=headers)
    passed(
        "columns and types",
        {"age", "admitted"} <= {column["column_name"] for column in reply.json["result"]["columns"]},
        reply,
    )

    def chart(**query):
        """Return the rows of a chart."""
        base = {"metrics": [METRIC], "filters": [], "row_limit": 100, "orderby": [], "extras": {}}
        asked = {
            "datasource": {"id": dataset, "type": "table"},
            "queries": [base | query],
            "result_format": "json",
            "result_type": "full",
            "force": True,
        }
        return post("/api/v1/chart/data", asked)

    reply = chart(columns=["ward"])
    passed("bar chart", len(reply.json["result"][0]["data"]) == 3, reply)
    reply = chart(
        columns=["sex"],
        filters=[{"col": "age", "op": ">=", "val": 18}, {"col": "ward", "op": "IN", "val": ["surgery"]}],
    )
    passed("filters", len(reply.json["result"][0]["data"]) >= 2, reply)
    month = {
        "timeGrain": "P1M",
        "columnType": "BASE_AXIS",
        "sqlExpression": "admitted",
        "label": "admitted",
        "expressionType": "SQL",
    }
    reply = chart(
        columns=[month], filters=[{"col": "admitted", "op": "TEMPORAL_RANGE", "val": "2024-01-01 : 2024-07-01"}]
    )
    passed("time series by month", reply.status_code == 200 and len(reply.json["result"][0]["data"]) >= 6, reply)
    reply = chart(
        columns=[],
        metrics=[{"expressionType": "SIMPLE", "column": {"column_name": "stay"}, "aggregate": "AVG", "label": "days"}],
    )
    passed("big number", 0 < reply.json["result"][0]["data"][0]["days"] < 30, reply)
    reply = client.get(f"/api/v1/datasource/table/{dataset}/column/ward/values/", headers=headers)
    passed("values of a filter", {"surgery", "medicine", "children"} <= set(reply.json["result"]), reply)
    for statement, status in (("SELECT sex, count(*) AS n FROM stays GROUP BY sex", 200), ("SELECT * FROM stays", 500)):
        asked = {
            "database_id": database,
            "sql": statement,
            "schema": "public",
            "runAsync": False,
            "queryLimit": 100,
            "client_id": str(status),
        }
        reply = post("/api/v1/sqllab/execute/", asked)
        told = reply.get_data(as_text=True)
        passed(
            f"SQL Lab: {statement[:8]}",
            (reply.status_code == 200) if status == 200 else "Rows are never shown" in told,
            reply,
        )
