"""The command ``forewarn``."""

import signal
import sys


def main() -> None:
    try:
        if "serve" in sys.argv and hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it means "reload", also while imports are under way
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once, not by an exception inside an import
        from forewarn.cli.root import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)  # interrupted before anything could be said about it


if __name__ == "__main__":
    main()
