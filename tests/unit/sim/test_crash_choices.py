"""The choices at one moment: complete where that is possible, sound everywhere."""

from __future__ import annotations

import itertools

import pytest

from stele.env.memory_fs import MemoryFileSystem
from stele.env.unsynced import SECTOR_BYTES
from stele.sim.crash_choices import Chosen, Kind, Moment

State = tuple[tuple[str, bytes], ...]


def states(fs: MemoryFileSystem, choices: list[Chosen]) -> set[State]:
    images = [fs.crash_image(chosen) for chosen in choices]
    return {tuple((name, image.read_all(name)) for name in image.list("")) for image in images}


def synced_log(size: int) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.write_atomic("log", b"s" * size)
    return fs


def test_a_synced_disk_has_one_state() -> None:
    moment = Moment(synced_log(10).disk)
    assert [chosen.kind for chosen in moment.basic()] == [Kind.KEPT]
    assert list(moment.classic()) == []
    assert moment.combination_count() == 1


def test_all_combinations_of_a_small_moment() -> None:
    fs = MemoryFileSystem()
    file = fs.create("log")
    file.write(b"a" * SECTOR_BYTES)
    file.write(b"b" * SECTOR_BYTES)
    moment = Moment(fs.disk)
    assert moment.combination_count() == 2 * 3 * 2 * 2
    found = states(fs, list(moment.further(seed=0, combinations_max=24)))
    zeros, a, b = bytes(SECTOR_BYTES), b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES
    contents = [b"", zeros, a, *(one + two for one in (zeros, a) for two in (zeros, b))]
    assert found == {(), *((("log", content),) for content in contents)}


def test_basic_and_classic_choices_are_among_the_combinations() -> None:
    fs = MemoryFileSystem()
    for name in ("one", "two"):
        file = fs.create(name)
        file.write(name.encode() * 200)
        file.write(b"x")
    fs.rename("one", "three")
    moment = Moment(fs.disk)
    every = states(fs, list(moment.further(0, moment.combination_count())))
    simple = states(fs, [*moment.basic(), *moment.classic()])
    assert simple <= every
    assert len(simple) > 10


@pytest.mark.parametrize(("size", "kind"), [(400, Kind.COMBINED), (1_700, Kind.SCATTERED)])
def test_large_moments_are_sampled_repeatably_and_soundly(size: int, kind: Kind) -> None:
    fs = MemoryFileSystem()
    file = fs.create("log")
    fs.sync_dir("")
    for letter in b"abcdefgh":
        file.write(bytes([letter]) * size)
    moment = Moment(fs.disk)

    def sampled(seed: int) -> list[Chosen]:
        return list(itertools.islice(moment.further(seed, combinations_max=300), 300))

    sample = sampled(3)
    assert {chosen.kind for chosen in sample} == {kind}
    assert states(fs, sample) == states(fs, sampled(3)) != states(fs, sampled(4))
    assert len(states(fs, sample)) > 150
    whole = fs.read_all("log")
    for state in states(fs, sample):
        for _name, content in state:
            assert all(got in (0, whole[at]) for at, got in enumerate(content))


def test_the_newest_write_is_torn_at_every_sector() -> None:
    fs = MemoryFileSystem()
    fs.write_atomic("other", b"o")
    file = fs.create("log")
    file.write(b"a" * 100)
    file.sync()
    fs.sync_dir("")
    file.write(b"b" * 1200)
    torn = [chosen for chosen in Moment(fs.disk).classic() if chosen.kind is Kind.TORN]
    lengths = {len(fs.crash_image(chosen).read_all("log")) for chosen in torn}
    assert lengths == {100, 512, 1024, 1300}
    assert len(torn) == 6
