"""Counts and times of requests for Prometheus, by door, act, status and code: never by names, texts or values."""

import prometheus_client as prometheus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """What one front counts."""

    def __init__(self, door: str) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library types most of itself
        self._registry = prometheus.CollectorRegistry(auto_describe=False)
        prometheus.ProcessCollector(registry=self._registry)
        self._door = door
        self._requests = prometheus.Counter(
            "dodona_requests", "Requests that were answered.", ("door", "act", "status"), registry=self._registry
        )
        self._problems = prometheus.Counter(
            "dodona_problems", "Errors that were answered, by code.", ("door", "code"), registry=self._registry
        )
        self._seconds = prometheus.Histogram(
            "dodona_request_seconds",
            "Time from the headers of a request to the end of its reply.",
            ("door", "act"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.running = prometheus.Gauge(
            "dodona_requests_running", "Requests without a reply yet.", registry=self._registry
        )
        self.connections = prometheus.Gauge("dodona_connections", "Open connections.", registry=self._registry)
        self.turned_away = prometheus.Counter(
            "dodona_connections_closed", "Connections that the server closed, by reason.", ("reason",),
            registry=self._registry,
        )  # fmt: skip

    def count(self, *, act: str, status: int, code: str | None, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(self._door, act, str(status)).inc()
        self._seconds.labels(self._door, act).observe(seconds)
        if code is not None:
            self._problems.labels(self._door, code).inc()

    def text(self) -> bytes:
        """Return all of it in the text format of Prometheus."""
        return prometheus.generate_latest(self._registry)
