"""The event files that we write by hand are read back by TensorBoard itself."""

import math
import warnings
from pathlib import Path

import numpy as np

from lrgi.training.events import EventWriter, _masked_crc

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


class Clock:
    def __init__(self, start: float) -> None:
        self.now = start

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


def read_back(directory: Path) -> dict[str, list[tuple[int, float, float]]]:
    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {
        tag: [(e.step, e.value, e.wall_time) for e in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


def test_tensorboard_reads_every_number_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    steps = [0, 1, 127, 128, 300, 2**31, 2**40 + 5]
    written = {
        "loss/total": rng.normal(size=len(steps)) * 10.0 ** rng.integers(-30, 30, len(steps)),
        "größe 图": rng.normal(size=len(steps)),
        "x" * 300: rng.normal(size=len(steps)),
    }
    writer = EventWriter(tmp_path / "new" / "events", Clock(1_700_000_000.0))
    for i, step in enumerate(steps):
        writer.scalars(step, {tag: float(values[i]) for tag, values in written.items()})
    writer.close()

    read = read_back(tmp_path / "new" / "events")
    assert set(read) == set(written)
    for tag, values in written.items():
        assert [row[0] for row in read[tag]] == steps
        assert np.array_equal([row[1] for row in read[tag]], values.astype(np.float32))
        assert [row[2] for row in read[tag]] == [1_700_000_000.75 + 0.25 * i for i in range(len(steps))]


def test_numbers_are_on_disk_after_a_flush(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path, Clock(5.0))
    writer.scalars(3, {"loss": math.pi})
    writer.flush()
    assert read_back(tmp_path)["loss"] == [(3, float(np.float32(math.pi)), 5.75)]
    writer.close()


def test_a_second_writer_on_the_same_file_appends(tmp_path: Path) -> None:
    for step in (1, 2):
        writer = EventWriter(tmp_path, Clock(5.0))
        writer.scalars(step, {"loss": float(step)})
        writer.close()
    assert len(list(tmp_path.iterdir())) == 1
    assert [row[:2] for row in read_back(tmp_path)["loss"]] == [(1, 1.0), (2, 2.0)]


def test_checksum_is_crc32c() -> None:
    crc = 0xE3069283  # of b"123456789", the check value of CRC-32C
    assert _masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
