"""``python -m pipeline`` and the console script ``voice-privacy``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and end with its exit status."""
    from pipeline.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
