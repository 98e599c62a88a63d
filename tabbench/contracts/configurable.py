"""A class with typed settings: the base of methods and models."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tabbench.config import Config as AnyConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

State = dict[str, "NDArray[Any]"]
"""Arrays by name, as stored in a safetensors file."""


Diagnostics = dict[str, Any]
"""What a training had to say, by name, as JSON values: curves by epoch, the epoch that was kept, and the like."""


class Configurable:
    """A class with settings: ``Method(lr=1e-3)`` or ``Method(Method.Config(lr=1e-3))``."""

    Config: ClassVar[type[AnyConfig]] = AnyConfig

    def __init__(self, config: AnyConfig | None = None, **settings: Any) -> None:
        if config is not None and settings:
            raise TypeError("give a Config or keyword settings, not both")
        self.config: Any = config if config is not None else self.Config.resolve(settings, type(self).__name__)

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """What training reported, as JSON values; part of the record."""
        return {}
