"""The company that the demo plays: its tasks, its workers, and whose jobs run when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from oncue.domain.placement import Priority
from oncue.domain.policy import Overlap
from oncue.domain.schedule import Asked

NOW = 0.0  # hours ago


@dataclass(frozen=True)
class Trouble:
    """An error that a task meets in a share of its attempts, between two times that are hours ago."""

    kind: str
    text: str
    share: float
    where: str  # file:function in which it rises
    since: float = 24.0
    until: float = NOW
    retry: bool = True


@dataclass(frozen=True)
class Work:
    """A task: its arguments, how many seconds an attempt takes, what it writes to its log, what goes wrong."""

    arguments: dict[str, str]
    seconds: tuple[float, float]
    says: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    steps: int = 0  # of its progress


@dataclass(frozen=True)
class Planned:
    """A recurring job; `how` are further fields of its definition."""

    name: str
    user: str
    task: str
    schedule: str | Asked
    payload: dict[str, Any] = field(default_factory=dict)
    how: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """A worker."""

    name: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...] = ("default",)
    labels: tuple[str, ...] = ()
    slots: int = 8


WORK = {
    "check_page": Work(
        {"url": "string"},
        (0.08, 0.4),
        ("GET {url}", "200, 48 KB"),
        (Trouble("TimeoutError", "no answer from www.example.org within 10 s", 0.02, "pages.py:check_page"),),
    ),
    "index_documents": Work({"index": "string"}, (4, 20), ("reading changes of {index}", "1,204 documents written")),
    "render_thumbnails": Work({"album": "string"}, (40, 90), ("album {album}", "120 pictures"), steps=120),
    "send_invoice": Work({"invoice": "integer", "to": "string"}, (0.4, 2), ("invoice {invoice} to {to}", "accepted")),
    "reconcile": Work(
        {"ledger": "string"},
        (20, 31),
        ("opening ledger {ledger}", "comparing 8,112 payments"),
        (Trouble("TimeoutError", "ledger-db:5432 did not answer within 30 s", 0.97, "ledger.py:compare", since=1.4),),
    ),
    "fetch_rates": Work({"base": "string"}, (0.5, 3), ("rates for {base}", "32 currencies")),
    "load_tables": Work({"schema": "string"}, (420, 780), ("loading {schema}", "copying in parts"), steps=40),
    "write_report": Work({"report": "string"}, (6, 40), ("collecting {report}", "rendering", "stored as PDF")),
    "sync_contacts": Work(
        {"system": "string"},
        (3, 12),
        ("changes since the last run of {system}", "17 contacts updated"),
        (
            Trouble("ConnectionError", "crm.example.org refused the connection", 0.95, "crm.py:changes", 2.6, 2.1),
            Trouble("KeyError", "'postal_code'", 0.06, "crm.py:contact", retry=False),
        ),
    ),
    "compact": Work({"table": "string"}, (90, 240), ("compacting {table}", "merged 64 files into 4"), steps=64),
    "back_up": Work({"database": "string"}, (200, 500), ("dumping {database}", "uploading", "verified"), steps=100),
    "check_hosts": Work({"group": "string"}, (0.3, 2), ("hosts of {group}", "all answer")),
    "send_mail": Work({"list": "string"}, (2, 9), ("{list}: 412 recipients", "sent")),
    "train": Work({"model": "string"}, (600, 900), ("training {model}",), steps=20),
    "embed": Work({"products": "string"}, (60, 200), ("embedding {products}",), steps=30),
    "score": Work(
        {"model": "string"},
        (8, 30),
        ("scoring with {model}", "90,112 customers"),
        (Trouble("ValueError", "model churn-7 expects 41 features, got 40", 0.35, "score.py:predict", 3.0),),
    ),
    "transcode": Work({"video": "string"}, (50, 110), ("transcoding {video}",), steps=50),
}


def _several(name: str, count: int, *what: Any, **how: Any) -> list[Machine]:
    return [Machine(f"{name}-{n}", *what, **how) for n in range(1, count + 1)]


ANY = ("check_page", "index_documents", "fetch_rates", "sync_contacts", "check_hosts", "send_invoice", "reconcile")
MACHINES = [
    *_several("web", 4, ANY, slots=16),
    *_several("billing", 3, ("send_invoice", "reconcile", "fetch_rates"), ("default", "billing")),
    *_several("etl", 3, ("load_tables", "compact", "back_up"), ("etl",), slots=4),
    *_several("reports", 2, ("write_report",), ("reports",), slots=4),
    *_several("mail", 2, ("send_mail",), ("mail",)),
    *_several("media", 1, ("render_thumbnails", "transcode"), ("media",), slots=3),
    *_several("gpu", 2, ("embed", "score", "train"), ("ml",), labels=("gpu",), slots=2),
    *_several("score", 2, ("score", "train"), ("ml",), slots=4),
    *_several("batch-eu", 1, ("load_tables", "compact", "check_hosts"), ("default", "etl"), slots=4),
]
SILENT = "batch-eu-1"  # sends no heartbeats
DRAINED = "web-4"

ETL, MAIL, MEDIA, ML = {"queue": "etl"}, {"queue": "mail"}, {"queue": "media"}, {"queue": "ml"}
REPORTS = {"queue": "reports"}
SEVERAL_TRIES = {"max_retries": 4}

JOBS = [
    Planned(
        "homepage-check", "web", "check_page", "every 30s", {"url": "https://www.example.org/"}, {"tags": ("site",)}
    ),
    Planned(
        "checkout-check", "web", "check_page", "every 1m", {"url": "https://www.example.org/pay"}, {"tags": ("site",)}
    ),
    Planned("search-index-delta", "web", "index_documents", "every 2m", {"index": "products"}),
    Planned(
        "sitemap-refresh",
        "web",
        "index_documents",
        Asked(cron="*/15 * * * *", timezone="America/New_York"),
        {"index": "sitemap"},
    ),
    Planned("album-thumbnails", "web", "render_thumbnails", "every 10m", {"album": "autumn"}, MEDIA),
    Planned(
        "cache-warm-up",
        "web",
        "check_page",
        Asked(cron="0 6 * * 1-5", timezone="Europe/London"),
        {"url": "https://www.example.org/"},
    ),
    Planned(
        "invoices-eu",
        "billing",
        "send_invoice",
        Asked(cron="0 8 1 * *", timezone="Europe/Berlin"),
        {"invoice": 1, "to": "all-eu@example.org"},
        {"tags": ("month-end",)},
    ),
    Planned(
        "invoices-us",
        "billing",
        "send_invoice",
        Asked(cron="0 8 1 * *", timezone="America/New_York"),
        {"invoice": 1, "to": "all-us@example.org"},
        {"tags": ("month-end",)},
    ),
    Planned(
        "payments-reconcile",
        "billing",
        "reconcile",
        "every 5m",
        {"ledger": "eu"},
        SEVERAL_TRIES | {"key": "reconcile-eu", "tags": ("money",)},
    ),
    Planned(
        "reconcile-archive",
        "billing",
        "reconcile",
        Asked(cron="45 23 * * *", timezone="Europe/Paris"),
        {"ledger": "us"},
    ),
    Planned("fx-rates", "billing", "fetch_rates", "every 5m", {"base": "EUR"}, {"tags": ("money",)}),
    Planned(
        "fx-rates-asia",
        "billing",
        "fetch_rates",
        Asked(cron="*/10 9-15 * * 1-5", timezone="Asia/Tokyo"),
        {"base": "JPY"},
    ),
    Planned(
        "tariff-switch",
        "billing",
        "fetch_rates",
        Asked(cron="30 2 * * SUNL", timezone="Europe/Berlin"),
        {"base": "kWh"},
        {"tags": ("month-end",)},
    ),
    Planned(
        "dunning-letters",
        "billing",
        "send_mail",
        Asked(cron="30 9 * * 2", timezone="Europe/Paris"),
        {"list": "overdue"},
        MAIL,
    ),
    Planned("warehouse-load", "data", "load_tables", "every 10m", {"schema": "sales"}, ETL | {"overlap": Overlap.SKIP}),
    Planned(
        "clickstream-compact", "data", "compact", Asked(cron="*/10 * * * *", timezone="UTC"), {"table": "clicks"}, ETL
    ),
    Planned("crm-sync", "data", "sync_contacts", "every 1m", {"system": "crm"}, {"max_retries": 1, "tags": ("crm",)}),
    Planned("partner-sync", "data", "sync_contacts", "every 4m", {"system": "partners"}, {"tags": ("crm",)}),
    Planned("hourly-roll-up", "data", "compact", Asked(cron="5 * * * *", timezone="UTC"), {"table": "orders"}, ETL),
    Planned(
        "daily-sales-report",
        "data",
        "write_report",
        Asked(cron="15 7 * * *", timezone="Asia/Tokyo"),
        {"report": "sales"},
        REPORTS,
    ),
    Planned("store-figures", "data", "write_report", "every 15m", {"report": "stores"}, REPORTS),
    Planned(
        "weekly-figures",
        "data",
        "send_mail",
        Asked(cron="0 7 * * 1", timezone="Europe/Berlin"),
        {"list": "board"},
        MAIL,
    ),
    Planned("newsletter-batch", "web", "send_mail", "every 3m", {"list": "subscribers"}, MAIL),
    Planned(
        "orders-backup",
        "ops",
        "back_up",
        Asked(cron="0 * * * *", timezone="UTC"),
        {"database": "orders"},
        ETL | {"priority": Priority.HIGH, "tags": ("backup",)},
    ),
    Planned(
        "wiki-backup",
        "ops",
        "back_up",
        Asked(cron="30 1 * * *", timezone="Europe/Madrid"),
        {"database": "wiki"},
        ETL | {"tags": ("backup",)},
    ),
    Planned("host-check", "ops", "check_hosts", "every 1m", {"group": "production"}),
    Planned("certificate-check", "ops", "check_hosts", "@hourly", {"group": "certificates"}),
    Planned(
        "shift-handover",
        "ops",
        "check_hosts",
        Asked(cron="0 22 * * *", timezone="Australia/Sydney"),
        {"group": "on-call"},
    ),
    Planned("staging-check", "ops", "check_hosts", "every 2m", {"group": "staging"}),
    Planned(
        "train-recommender",
        "ml",
        "train",
        Asked(cron="0 */3 * * *", timezone="UTC"),
        {"model": "recommender"},
        ML | {"labels": ("a100",)},
    ),
    Planned("embed-products", "ml", "embed", "every 5m", {"products": "new"}, ML | {"labels": ("gpu",)}),
    Planned("score-churn", "ml", "score", "every 6m", {"model": "churn-7"}, ML | {"max_retries": 0}),
]
PAUSED = ("staging-check", "reconcile-archive")
EDITED: dict[str, dict[str, Any]] = {
    "fx-rates": {"max_retries": 6},
    "crm-sync": {"tags": ("crm", "eu")},
    "host-check": {"priority": Priority.HIGH},
}

USERS = ("web", "billing", "data", "ops", "ml")
WRONG_ADDRESSES = ("anna.example.org", "office(at)example.org", "n/a")
