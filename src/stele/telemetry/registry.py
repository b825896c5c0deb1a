"""All metrics of a process by name and labels, and how they are read.

A metric is made where it is used, once, and kept in a field; looking it up again gives the same
object::

    self._syncs = registry.counter("log_syncs_total", "Syncs of the log")
    self._latency = registry.histogram("apply_us", "Time of an apply", table="users")

One name has one kind, one description and one set of label names. Labels are for what has few
values (a table, a state), never for rows or requests: ``SERIES_PER_NAME_MAX`` is the wall.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stele.errors import InvalidArgument, LimitExceeded
from stele.telemetry.metrics import (
    Counter,
    Gauge,
    Histogram,
    HistogramSnapshot,
    bucket_of,
)

SERIES_PER_NAME_MAX = 1_000
PERCENTILES = (50, 90, 99, 99.9)

_NAME = re.compile(r"[a-z][a-z0-9_]*")

Metric = Counter | Gauge | Histogram
Kind = TypeVar("Kind", Counter, Gauge, Histogram)
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Family:
    """All metrics of one name."""

    name: str
    description: str
    make: type[Metric]
    label_names: tuple[str, ...]
    series: dict[Labels, Metric] = field(default_factory=dict)


class Registry:
    """The metrics of a process, or of one server in a simulation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._families: dict[str, Family] = {}

    def counter(self, name: str, description: str, **labels: str) -> Counter:
        """The counter of that name and labels; its name ends in ``_total``."""
        if not name.endswith("_total"):
            raise InvalidArgument(f"counter {name!r} must end in _total")
        return self._metric(name, description, Counter, labels)

    def gauge(self, name: str, description: str, **labels: str) -> Gauge:
        """The gauge of that name and labels."""
        return self._metric(name, description, Gauge, labels)

    def histogram(self, name: str, description: str, **labels: str) -> Histogram:
        """The histogram of that name and labels; the name ends in its unit (``_us``)."""
        return self._metric(name, description, Histogram, labels)

    def _metric(
        self, name: str, description: str, make: type[Kind], labels: Mapping[str, str]
    ) -> Kind:
        key = tuple(sorted(labels.items()))
        with self._lock:
            family = self._families.get(name)
            if family is None:
                family = _new_family(name, description, make, key)
                self._families[name] = family
            _require_same(family, make, key)
            if key not in family.series:
                if len(family.series) == SERIES_PER_NAME_MAX:
                    raise LimitExceeded(f"metric {name!r} has {SERIES_PER_NAME_MAX} label sets")
                family.series[key] = make()
            metric = family.series[key]
            assert isinstance(metric, make), "one name has one kind"
            return metric

    def forget(self, name: str, **labels: str) -> None:
        """Drop one metric: its table or tablet is gone. Harmless when there is none."""
        with self._lock:
            family = self._families.get(name)
            if family is not None:
                family.series.pop(tuple(sorted(labels.items())), None)

    def _sorted(self) -> Iterator[tuple[Family, list[tuple[Labels, Metric]]]]:
        with self._lock:
            families = [(f, sorted(f.series.items())) for _, f in sorted(self._families.items())]
        yield from families

    def snapshot(self) -> dict[str, list[dict[str, Any]]]:
        """All values as plain data: by name, a list of ``{"labels": …, "value" or figures}``."""
        return {
            family.name: [{"labels": dict(key), **_figures(metric)} for key, metric in series]
            for family, series in self._sorted()
        }

    def prometheus_text(self, prefix: str = "stele_") -> str:
        """All values in Prometheus' text format, version 0.0.4."""
        lines: list[str] = []
        for family, series in self._sorted():
            name = prefix + family.name
            lines.append(f"# HELP {name} {_escaped(family.description)}")
            lines.append(f"# TYPE {name} {family.make.__name__.lower()}")
            for key, metric in series:
                if isinstance(metric, Histogram):
                    lines.extend(_histogram_lines(name, key, metric.snapshot()))
                else:
                    lines.append(f"{name}{_label_text(key)} {metric.value}")
        return "\n".join([*lines, ""])


def _new_family(name: str, description: str, make: type[Metric], key: Labels) -> Family:
    label_names = tuple(label for label, _value in key)
    for part in (name, *label_names):
        if not _NAME.fullmatch(part):
            raise InvalidArgument(f"{part!r} is no metric or label name: {_NAME.pattern}")
    return Family(name, description, make, label_names)


def _require_same(family: Family, make: type[Metric], key: Labels) -> None:
    if family.make is not make:
        was = family.make.__name__.lower()
        raise InvalidArgument(f"metric {family.name!r} is a {was}, not a {make.__name__.lower()}")
    label_names = tuple(label for label, _value in key)
    if family.label_names != label_names:
        raise InvalidArgument(
            f"metric {family.name!r} has the labels {family.label_names}, not {label_names}"
        )


def _figures(metric: Metric) -> dict[str, Any]:
    if not isinstance(metric, Histogram):
        return {"value": metric.value}
    seen = metric.snapshot()
    percentiles = {f"p{percent:g}": seen.percentile(percent) for percent in PERCENTILES}
    figures = {"count": seen.count, "sum": seen.total, "min": seen.low, "max": seen.high}
    return {**figures, "mean": seen.mean, **percentiles}


def _histogram_lines(name: str, key: Labels, seen: HistogramSnapshot) -> Iterator[str]:
    """Cumulative buckets at the ends of the powers of two, as far as there are values."""
    below = 0
    buckets = sorted(seen.buckets.items())
    for exponent in range(seen.high.bit_length() + 1 if seen.count else 0):
        bound = (1 << exponent) - 1
        last = bucket_of(bound)
        while buckets and buckets[0][0] <= last:
            below += buckets.pop(0)[1]
        yield f"{name}_bucket{_label_text((*key, ('le', str(bound))))} {below}"
    yield f"{name}_bucket{_label_text((*key, ('le', '+Inf')))} {seen.count}"
    yield f"{name}_sum{_label_text(key)} {seen.total}"
    yield f"{name}_count{_label_text(key)} {seen.count}"


def _label_text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value, quote=True)}"' for name, value in labels) + "}"


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
