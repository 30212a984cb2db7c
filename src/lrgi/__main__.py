"""`python -m lrgi` is the command `lrgi`."""

import sys

from lrgi.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
