"""Flags made from the fields of settings: none is typed by hand."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, fields
from typing import Any, get_type_hints

from lrgi.errors import LRGIError


class UsageError(LRGIError):
    """A command line that cannot be understood; a ValueError would be reworded by argparse."""


_METAVARS = {int: "N", float: "X", str: "TEXT"}


def add_settings(
    parser: argparse.ArgumentParser,
    settings: type,
    groups: Mapping[str, Collection[str]],
    *,
    defaults: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
    prefix: str = "",
) -> None:
    """A flag for every field of a settings dataclass (or for `only` some), under the groups' titles.

    `learning_rate` becomes --learning-rate, its help is the field's, with the default. A field whose
    metadata has "flag": False gets none. Only flags that are given appear in the parsed arguments.
    With the prefix "gbt" it becomes --gbt-learning-rate, and gbt_learning_rate there.
    """
    kinds = get_type_hints(settings)
    open_groups: dict[str, Any] = {}
    for entry in fields(settings):
        if entry.metadata.get("flag") is False or (only is not None and entry.name not in only):
            continue
        title = next((t for t, names in groups.items() if entry.name in names), "other settings")
        if title not in open_groups:
            open_groups[title] = parser.add_argument_group(title)
        default = (defaults or {}).get(entry.name, entry.default)
        _add_flag(open_groups[title], entry, kinds[entry.name], default, _named(prefix, entry.name))


def given_settings(arguments: argparse.Namespace, settings: type, prefix: str = "") -> dict[str, Any]:
    """The fields of a settings dataclass that the command line named."""
    places = {e.name: _named(prefix, e.name) for e in fields(settings)}
    return {name: getattr(arguments, at) for name, at in places.items() if hasattr(arguments, at)}


def _named(prefix: str, name: str) -> str:
    return f"{prefix}_{name}".replace("-", "_") if prefix else name


def examples(text: str) -> str:
    """The end of a help text."""
    return "examples:\n" + textwrap.indent(textwrap.dedent(text).strip(), "  ")


def _add_flag(group: Any, entry: Field[Any], kind: Any, default: Any, dest: str) -> None:
    flag = "--" + dest.replace("_", "-")
    help = f"{entry.metadata['help']} (default {_shown(default)})".replace("%", "%%")
    options: dict[str, Any] = {"dest": dest, "default": argparse.SUPPRESS, "help": help}
    if kind is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif kind == tuple[int, ...]:
        group.add_argument(flag, type=_numbers(flag), metavar="N,N,...", **options)
    else:
        choices = entry.metadata.get("choices")
        metavar = "{" + ",".join(choices) + "}" if choices else _METAVARS[kind]
        group.add_argument(flag, type=number(flag, kind), metavar=metavar, **options)


def number(flag: str, kind: type, least: int | None = None) -> Callable[[str], Any]:
    """Reads the value of a flag; raises UsageError for what is no such number."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise UsageError(f"{flag} must be {wanted}, got {text!r}; correct it") from None
        if least is not None and value < least:
            raise UsageError(f"{flag} must be at least {least}, got {value}; raise it")
        return value

    return read


def _numbers(flag: str) -> Callable[[str], tuple[int, ...]]:
    def read(text: str) -> tuple[int, ...]:
        try:
            return tuple(int(number) for number in text.split(","))
        except ValueError:
            raise UsageError(
                f"{flag} must be whole numbers with commas between, got {text!r}; write 0,1,2"
            ) from None

    return read


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default) or "empty"
