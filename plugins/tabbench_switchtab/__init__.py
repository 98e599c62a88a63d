"""SwitchTab: switched auto-encoders (Wu et al., AAAI 2024)."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [
        Plugin(
            "switchtab",
            "tabbench_switchtab.method:SwitchTab",
            config="tabbench_switchtab.config:SwitchTabConfig",
            finetune=True,
            summary="split codes of rows into mutual and salient parts, and reconstruct rows with exchanged parts",
            paper="Wu et al., AAAI 2024",
            url="https://arxiv.org/abs/2401.02013",
            bibtex="tabbench_switchtab:citation.bib",
            revision=3,
        ),
        Plugin(
            "switchtab_sup",
            "tabbench_switchtab.method:SwitchTabSupervised",
            config="tabbench_switchtab.config:SwitchTabSupervisedConfig",
            finetune=True,
            summary="SwitchTab that also predicts the labels during pretraining",
            paper="Wu et al., AAAI 2024",
            url="https://arxiv.org/abs/2401.02013",
            bibtex="tabbench_switchtab:citation.bib",
            revision=3,
            uses_labels=True,
            untrained=False,
        ),
    ]
