"""The command ``forewarn``."""


def main() -> None:
    """Run the command line."""
    from forewarn.cli.root import main as run

    run()


if __name__ == "__main__":
    main()
