"""Write pages and other files given with ``--out``."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tabbench.errors import UsageError


def check_place(path: Path) -> None:
    """Refuse a file that cannot or must not be written, before any work is done for it.

    Only regular files are replaced: a device would become a file, and a link may lead anywhere.
    """
    try:
        if path.is_symlink():
            raise UsageError(f"--out {path} is a link; give a file")
        if path.is_dir():
            raise UsageError(f"--out {path} is a folder; give a file")
        if path.exists() and not path.is_file():
            raise UsageError(f"--out {path} is not a regular file; give another")
        folder = path.absolute().parent
        if not folder.is_dir():
            raise UsageError(f"--out {path}: there is no folder {path.parent}")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"--out {path}: cannot write to the folder {folder}")
    except UsageError:
        raise
    except (OSError, ValueError) as error:  # a name that is too long, or that holds a null character
        raise _refused(path, error) from None


def write_file(path: Path, text: str) -> None:
    """Write a file all at once, so that no reader ever sees half of it."""
    check_place(path)
    draft = path.with_name(f".tabbench-{secrets.token_hex(4)}")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _refused(path, error) from None


def _refused(path: Path, error: Exception) -> UsageError:
    shown = str(path) if len(str(path)) <= 100 else f"{str(path)[:100]}..."
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"--out {shown!r} cannot be written: {reason}")
