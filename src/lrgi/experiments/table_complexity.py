"""`lrgi reproduce table:complexity`."""

from __future__ import annotations

from lrgi.experiments.cost_tables import cost_table

_TABLE = cost_table("complexity")
reproduce, blocks = _TABLE.reproduce, _TABLE.blocks
