"""Linear models: ridge and logistic regression, the linear probe of representations."""

from tabbench import Plugin, hookimpl


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [
        Plugin(
            "linear",
            "tabbench_linear.model:Linear",
            config="tabbench_linear.config:LinearConfig",
            summary="ridge or multinomial logistic regression, penalty chosen on validation",
            weights=True,
            seeded=False,
            revision=3,
        ),
        Plugin(
            "linear_head",
            "tabbench_linear.head:LinearHead",
            config="tabbench_linear.config:LinearHeadConfig",
            summary="one linear layer trained by gradient descent, for fine-tuning an encoder",
            finetune=True,
            weights=True,
        ),
    ]
