"""Which run a run is: the settings that decide its result. Only the same one may go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from lrgi.errors import InputError


def identity(record: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting by the name that a person knows it by; JSON."""
    plan, graph, beginning = (record.get(key) or {} for key in ("plan", "graph", "from"))
    given = {
        "graph": f"{graph.get('nodes')} nodes, {graph.get('edges')} edges, {graph.get('checksum')}",
        "method": record.get("method"),
        **{f"{record.get('method')} {name}": v for name, v in (record.get("method_settings") or {}).items()},
        **plan,
        "fit_on": record.get("fit_on"),
        "weights to begin with": beginning.get("checksum"),
    }
    return dict(json.loads(json.dumps(given)))


def key_of(record: Mapping[str, Any]) -> str:
    """A name for the identity: 32 hexadecimal digits."""
    text = json.dumps(identity(record), sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def check_same(record: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """InputError that names the first setting in which a run on disk is not the one that is asked for."""
    there, asked = identity(record), identity(wanted)
    for name in [*asked, *(name for name in there if name not in asked)]:
        if there.get(name) != asked.get(name):
            what = "holds a finished run" if record.get("status") == "finished" else "holds an unfinished run"
            raise InputError(
                f"a run must keep its settings, got {name} {asked.get(name)!r} for {path}, which {what} with "
                f"{name} {there.get(name)!r}; choose another path, pass --overwrite to start again here, or "
                f"start from its weights in another path with --from {path}"
            )
