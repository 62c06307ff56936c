"""The command ``forewarn``."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from forewarn.cli.root import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)  # interrupted before anything could be said about it


if __name__ == "__main__":
    main()
