"""`lrgi reproduce table:batch`."""

from __future__ import annotations

from lrgi.experiments.cost_tables import cost_table

_TABLE = cost_table("batch")
reproduce, blocks = _TABLE.reproduce, _TABLE.blocks
