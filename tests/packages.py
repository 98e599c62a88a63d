"""Third-party packages installed as pip would, without pip: tests run offline and leave their environment alone."""

import os
import shutil
import tomllib
from pathlib import Path


def install(project: Path, site: Path) -> dict[str, str]:
    """Put a project's packages and metadata into the folder ``site``; the environment in which they are found."""
    about = tomllib.loads((project / "pyproject.toml").read_text())
    name, version = about["project"]["name"], about["project"]["version"]
    for package in about["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        shutil.copytree(project / package, site / Path(package).name)
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    points = about["project"]["entry-points"]["tabbench"]
    lines = [f"{point} = {module}" for point, module in points.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[tabbench]", *lines, ""]))
    return {**os.environ, "PYTHONPATH": str(site)}
