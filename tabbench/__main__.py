"""``python -m tabbench`` is ``tabbench``."""

from tabbench.cli.app import main

main()
