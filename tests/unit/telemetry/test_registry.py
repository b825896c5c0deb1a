"""Metrics by name: one object for each series, plain data and Prometheus text."""

from __future__ import annotations

import json

import pytest

from stele.errors import InvalidArgument, LimitExceeded
from stele.telemetry import registry as registry_module
from stele.telemetry.registry import Registry


def test_a_series_is_one_object() -> None:
    registry = Registry()
    one = registry.counter("reads_total", "Reads", table="a", kind="get")
    assert registry.counter("reads_total", "Reads", kind="get", table="a") is one
    assert registry.counter("reads_total", "Reads", table="b", kind="get") is not one
    assert registry.gauge("open", "Open") is registry.gauge("open", "Open")
    assert registry.histogram("wait_us", "Wait") is registry.histogram("wait_us", "Wait")
    assert Registry().gauge("open", "Open") is not registry.gauge("open", "Open")


def test_a_name_has_one_kind_and_one_set_of_labels() -> None:
    registry = Registry()
    registry.gauge("size", "Size", table="a")
    with pytest.raises(InvalidArgument, match="is a gauge, not a histogram"):
        registry.histogram("size", "Size", table="a")
    with pytest.raises(InvalidArgument, match=r"labels \('table',\), not \('family',\)"):
        registry.gauge("size", "Size", family="a")


@pytest.mark.parametrize("name", ["", "Upper_total", "9_total", "a-b_total", "a b_total"])
def test_odd_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        Registry().counter(name, "Odd")
    with pytest.raises(InvalidArgument):
        Registry().gauge("fine", "Odd", **{name: "x"})


def test_a_counter_says_so_in_its_name() -> None:
    with pytest.raises(InvalidArgument, match="_total"):
        Registry().counter("reads", "Reads")


def test_labels_with_many_values_hit_a_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "SERIES_PER_NAME_MAX", 3)
    registry = Registry()
    for table in "abc":
        registry.gauge("size", "Size", table=table)
    with pytest.raises(LimitExceeded, match="'size'"):
        registry.gauge("size", "Size", table="d")
    registry.forget("size", table="a")
    registry.forget("size", table="never there")
    registry.forget("nor this")
    assert registry.gauge("size", "Size", table="d").value == 0


def filled() -> Registry:
    registry = Registry()
    registry.counter("reads_total", "Reads so far", table='odd "\\\n').add(3)
    registry.gauge("open_scanners", "Scanners\nopen").set(-2)
    latency = registry.histogram("apply_us", "Apply", table="t")
    for value in (0, 1, 5, 40):
        latency.record(value)
    return registry


def test_a_snapshot_is_plain_data() -> None:
    snapshot = filled().snapshot()
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert snapshot["reads_total"] == [{"labels": {"table": 'odd "\\\n'}, "value": 3}]
    assert snapshot["open_scanners"] == [{"labels": {}, "value": -2}]
    (apply,) = snapshot["apply_us"]
    assert apply == {
        "labels": {"table": "t"},
        "count": 4, "sum": 46, "min": 0, "max": 40, "mean": 11.5,
        "p50": 1, "p90": 40, "p99": 40, "p99.9": 40,
    }  # fmt: skip


def test_prometheus_text() -> None:
    assert filled().prometheus_text() == (
        "# HELP stele_apply_us Apply\n"
        "# TYPE stele_apply_us histogram\n"
        'stele_apply_us_bucket{table="t",le="0"} 1\n'
        'stele_apply_us_bucket{table="t",le="1"} 2\n'
        'stele_apply_us_bucket{table="t",le="3"} 2\n'
        'stele_apply_us_bucket{table="t",le="7"} 3\n'
        'stele_apply_us_bucket{table="t",le="15"} 3\n'
        'stele_apply_us_bucket{table="t",le="31"} 3\n'
        'stele_apply_us_bucket{table="t",le="63"} 4\n'
        'stele_apply_us_bucket{table="t",le="+Inf"} 4\n'
        'stele_apply_us_sum{table="t"} 46\n'
        'stele_apply_us_count{table="t"} 4\n'
        "# HELP stele_open_scanners Scanners\\nopen\n"
        "# TYPE stele_open_scanners gauge\n"
        "stele_open_scanners -2\n"
        "# HELP stele_reads_total Reads so far\n"
        "# TYPE stele_reads_total counter\n"
        'stele_reads_total{table="odd \\"\\\\\\n"} 3\n'
    )


def test_an_empty_histogram_in_prometheus_text() -> None:
    registry = Registry()
    registry.histogram("wait_us", "Wait")
    assert registry.prometheus_text("x_").splitlines()[2:] == [
        'x_wait_us_bucket{le="+Inf"} 0',
        "x_wait_us_sum 0",
        "x_wait_us_count 0",
    ]
