"""``tabbench list``, and how names are divided."""

import pytest
from harness import TOYS, tabbench

from tabbench import __version__
from tabbench.cli.options import split_names


def test_list_says_where_things_come_from() -> None:
    done = tabbench("list", "models", "--plugin", TOYS)
    assert done.returncode == 0, done.stderr
    nearest = next(line for line in done.stdout.splitlines() if line.split()[0] == "nearest")
    assert nearest.endswith(f"({TOYS} unpublished)")
    assert done.stdout.endswith(f"Entries without a package name ship with tabbench-ssl {__version__}.\n")


@pytest.mark.parametrize(
    "text, names",
    [
        ("a, b,,a", ["a", "b"]),
        ("", []),
        (r"a\,b.csv:t,wine", ["a,b.csv:t", "wine"]),
        (r"C:\data.csv:y", [r"C:\data.csv:y"]),
    ],
)
def test_names_are_divided_at_commas_that_are_no_part_of_them(text: str, names: list[str]) -> None:
    assert split_names(text) == names
