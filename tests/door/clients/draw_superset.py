"""A chart of Superset with error bars, as its pages show it: makes the chart by the HTTP API, and prints its address."""

import json
import os

from superset.app import create_app

address = f"postgresql+psycopg2://{os.environ['PGUSER']}:{os.environ['PGPASSWORD']}@localhost:{os.environ['PGPORT']}/{os.environ['PGDATABASE']}?sslmode=require&options=-c%20dodona.within%3D30"
MONTHS = """SELECT date_trunc('month', admitted) AS month, count(*) AS stays, DP_INTERVAL_LOW(stays) AS low,
DP_INTERVAL_HIGH(stays) AS high FROM stays GROUP BY 1"""


def metric(column, label):
    """Return a column of the answer as a metric; Superset draws a band between two whose labels end as forecasts do."""
    return {"expressionType": "SQL", "sqlExpression": f"MAX({column})", "label": label}


app = create_app()
with app.test_client() as client:
    login = {"username": "admin", "password": "admin", "provider": "db"}
    headers = {"Authorization": f"Bearer {client.post('/api/v1/security/login', json=login).json['access_token']}"}

    def made(path, body):
        """Return the id of what was made."""
        reply = client.post(path, json=body, headers=headers)
        assert reply.status_code == 201, reply.get_data(as_text=True)[:2000]
        return reply.json["id"]

    database = made(
        "/api/v1/database/",
        {"database_name": "hospital", "sqlalchemy_uri": address, "expose_in_sqllab": True},
    )
    dataset = made(
        "/api/v1/dataset/",
        {"database": database, "schema": "public", "table_name": "stays by month", "sql": MONTHS},
    )
    form = {
        "datasource": f"{dataset}__table",
        "viz_type": "echarts_timeseries_line",
        "x_axis": "month",
        "time_grain_sqla": "P1M",
        "metrics": [
            metric("stays", "stays"),
            metric("low", "stays__yhat_lower"),
            metric("high", "stays__yhat_upper"),
        ],
        "groupby": [],
        "row_limit": 1000,
        "adhoc_filters": [],
        "x_axis_time_format": "%b",
        "truncateYAxis": False,
        "show_legend": True,
        "markerEnabled": True,
        "x_axis_title": "month",
        "y_axis_title": "stays, with their 95% intervals",
        "y_axis_title_margin": 50,
        "x_axis_title_margin": 30,
    }
    chart = made(
        "/api/v1/chart/",
        {
            "slice_name": "Stays by month, with error bars",
            "viz_type": form["viz_type"],
            "datasource_id": dataset,
            "datasource_type": "table",
            "params": json.dumps(form),
        },
    )
    print(f"/explore/?slice_id={chart}")
