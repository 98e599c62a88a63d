"""The two controls of the protocol: raw features, and a method's encoder without training."""

NONE = "none"
UNTRAINED = "untrained"


def untrained(method: str) -> str:
    """The name of a method's untrained control in records and tables."""
    return f"{UNTRAINED}:{method}"


class Control:
    """A placeholder for a control in listings. The plan handles controls itself and never instantiates this."""
