"""What is printed where: results to stdout, progress to stderr, and JSON instead of words if asked."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any


class Console:
    """Words and progress of one command."""

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json, self.quiet, self._muted = json, quiet, False

    def mute(self) -> None:
        """Say nothing any more: another process says it."""
        self.quiet = self._muted = True

    @property
    def on_terminal(self) -> bool:
        """Whether someone watches the progress."""
        return sys.stderr.isatty()

    def say(self, text: str = "") -> None:
        """A part of the result, for a person."""
        if not self.json and not self._muted:
            print(text, flush=True)

    def note(self, text: str) -> None:
        """A line of progress."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def sketch(self, text: str) -> None:
        """A line on the terminal that the next one replaces; "" takes it away."""
        if not self.quiet:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def result(self, value: dict[str, Any]) -> None:
        """The one JSON object, when JSON was asked for."""
        if self.json and not self._muted:
            print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)

    def next_steps(self, steps: list[tuple[str, str]]) -> None:
        """What to type next: (command without its first word, what it does)."""
        if steps:
            self.say("\nWhat to type next:")
            for command, purpose in steps:
                self.say(f"  # {purpose}\n  {this_command()} {command}")


def this_command() -> str:
    """How this command was called, so that what we print can be typed."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m lrgi"
    found = shutil.which("lrgi")
    on_path = found is not None and Path(found).resolve() == called.resolve()
    return "lrgi" if on_path or called.name != "lrgi" else str(called)
