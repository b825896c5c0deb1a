"""What a new user does on the first day: from a CSV file to a table, and out again."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # PySpark's own doing, at import and at the end of a session.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROWS = 200
COLUMNS = {"info:name": "string", "info:age": "int64"}


def test_from_a_csv_file_and_back(spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    with source.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "age"])
        writer.writerows([f"u{n * 37 % ROWS:04}", f"Name, {n}", n % 90] for n in range(ROWS))
    with stele.open(tmp_path / "data") as db:
        people = db.create_table("people", stele.Schema(columns=COLUMNS))

        frame = spark.read.options(header=True, inferSchema=True).csv(str(source))
        typed = frame.withColumn("age", frame.age.cast("long"))
        loaded = ss.bulk_load(spark, typed, people, row="id", family="info")
        assert loaded.rows == ROWS

        ss.view(spark, people)
        count = "SELECT count(*), sum(`info:age`) FROM people WHERE `info:age` >= 18"
        adults = [n % 90 for n in range(ROWS) if n % 90 >= 18]
        assert tuple(spark.sql(count).first()) == (len(adults), sum(adults))

        people.put(b"u0000", {"info:age": 99})
        people.delete(b"u0037")
        assert tuple(spark.sql(count).first()) == (len(adults), sum(adults)), "a view is a moment"
        ss.view(spark, people)
        assert spark.sql("SELECT max(`info:age`), count(*) FROM people").first()[:] == (
            99,
            ROWS - 1,
        )

        changes = ss.changes(spark, people, since=loaded.txn).collect()
        kinds = sorted((bytes(line["row"]), line["_change_type"]) for line in changes)
        assert kinds == [
            (b"u0000", "update_postimage"),
            (b"u0000", "update_preimage"),
            (b"u0037", "delete"),
        ]

        before = people.scan().to_arrow().drop_columns(["txn"])
        ss.compact(spark, people)
        assert people.scan().to_arrow().drop_columns(["txn"]).equals(before)

        out = str(tmp_path / "out")
        done = ss.export(spark, people, out, format="csv")
        assert done.lines == ROWS - 1
        again = db.create_table("again", stele.Schema(columns=COLUMNS))
        ss.import_(spark, out, again, format="csv")
        rows = {row.key: (row["info:name"], row["info:age"]) for row in people.scan()}
        assert {row.key: (row["info:name"], row["info:age"]) for row in again.scan()} == rows
        assert len(rows) == ROWS - 1
