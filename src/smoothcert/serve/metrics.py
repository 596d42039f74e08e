"""What Prometheus may ask: requests, hits, votes, the line, latency by kind, promises and expected errors."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from smoothcert.serve.messages import Status

BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics:
    """The metrics of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Counter("smoothcert_requests", "Requests", ["kind", "status"], registry=own)
        self.seconds = Histogram("smoothcert_seconds", "Time to answer", ["kind"], buckets=BUCKETS, registry=own)
        self.hits = Counter("smoothcert_hits", "Inputs answered by a promise", registry=own)
        self.votes = Counter("smoothcert_votes", "Votes counted", registry=own)
        self.answers = Counter("smoothcert_answers", "Answers by votes", ["outcome"], registry=own)
        self.waiting = Gauge("smoothcert_queue", "Inputs that wait for votes", registry=own)
        self.promises = Gauge("smoothcert_promises", "Promises in the memory", registry=own)
        self.wrong = Gauge("smoothcert_expected_wrong", "Alpha of each promise and of each other try", registry=own)

    def text(self, status: Status) -> bytes:
        """All of them, as Prometheus reads them."""
        self.promises.set(status.promises)
        self.wrong.set(status.expected_wrong)
        return bytes(generate_latest(self.registry))
