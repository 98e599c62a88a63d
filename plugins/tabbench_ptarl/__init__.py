"""PTaRL: prototype-based tabular representation learning, a supervised scheme (Ye et al., ICLR 2024)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "ptarl",
            "tabbench_ptarl.method:PTaRL",
            config="tabbench_ptarl.config:PTaRLConfig",
            summary="train the downstream model's own backbone in the space of learned prototypes",
            paper="Ye et al., ICLR 2024",
            url="https://arxiv.org/abs/2407.05364",
            code="https://github.com/HangtingYe/PTaRL/tree/c3fa26eb53cfcfd707b5a8765910e009f15141c4",
            bibtex="tabbench_ptarl:citation.bib",
            revision=4,
            aliases=("ptarl_native",),
            uses_labels=True,
            gives="predictions",
            untrained=False,
        ),
        Plugin(
            "ptarl_repr",
            "tabbench_ptarl.method:PTaRLRepresentation",
            config="tabbench_ptarl.config:PTaRLRepresentationConfig",
            summary="PTaRL with an MLP backbone, frozen, as a representation for downstream models",
            paper="Ye et al., ICLR 2024",
            url="https://arxiv.org/abs/2407.05364",
            code="https://github.com/HangtingYe/PTaRL/tree/c3fa26eb53cfcfd707b5a8765910e009f15141c4",
            bibtex="tabbench_ptarl:citation.bib",
            revision=4,
            uses_labels=True,
            untrained=False,
        ),
    ]
