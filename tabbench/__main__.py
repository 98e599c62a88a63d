"""The command ``tabbench``, also as ``python -m tabbench``."""

import sys


def main() -> None:
    """Import and run the command line: Ctrl-C ends it in one line, even while Python still imports."""
    try:
        from tabbench.cli.app import main as run_command

        run_command()
    except KeyboardInterrupt:
        print("tabbench: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
