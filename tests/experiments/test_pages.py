"""The documentation's tables are those of the records."""

from pathlib import Path

import pytest

from lrgi.errors import FormatError
from lrgi.experiments.pages import all_blocks, with_blocks
from lrgi.report.record import read_record, record_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["results.md", "scale.md", "reliability.md"])
def test_the_page_agrees_with_the_records(name):
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert with_blocks(page, all_blocks(ROOT / "results", name)) == page, "run `make tables`"


def test_every_committed_record_is_sound_and_lies_in_its_place():
    for path in (ROOT / "results").rglob("*.json"):
        if ".seeds" not in path.parts:
            record = read_record(path)
            assert record_path(ROOT / "results", record.experiment, record.cell) == path


def test_a_page_without_a_place_for_a_table_is_refused():
    assert with_blocks("a\n<!-- t -->\nold\n<!-- end of t -->\nb", {"t": "new\\1"}) == (
        "a\n<!-- t -->\nnew\\1\n<!-- end of t -->\nb"
    )
    with pytest.raises(FormatError, match=r"the page must hold the lines <!-- t --> and .* once, got 0 such"):
        with_blocks("nothing", {"t": "new"})
