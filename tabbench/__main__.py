"""The command ``tabbench``, also as ``python -m tabbench``."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

MESSAGE = "tabbench: interrupted\n"
EXIT_CODE = 130


def main() -> None:
    """Import and run the command line. Ctrl-C ends it in one line, even while Python is still importing."""
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise the shell has us ignore Ctrl-C
            signal.signal(signal.SIGINT, interrupt)
        from tabbench.cli.app import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.stderr.write(MESSAGE)
        sys.exit(EXIT_CODE)


def interrupt(number: int, frame: "FrameType | None") -> None:
    """Raise ``KeyboardInterrupt``, as Python would.

    After each import Python calls back to drop the module's lock. It only prints what is raised there and goes on, so
    Ctrl-C would be lost; then end at once instead.
    """
    if frame is not None and frame.f_code.co_name == "cb" and "importlib" in frame.f_code.co_filename:
        os.write(2, MESSAGE.encode())
        os._exit(EXIT_CODE)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
