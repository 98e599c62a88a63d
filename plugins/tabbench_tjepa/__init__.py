"""T-JEPA: predict the representation of some features of a row from others (Thimonier et al., ICLR 2025)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "tjepa",
            "tabbench_tjepa.method:TJEPA",
            config="tabbench_tjepa.config:TJEPAConfig",
            summary="predict the latent representation of some features of a row from that of others",
            revision=2,
            paper="Thimonier et al., ICLR 2025",
        )
    ]
