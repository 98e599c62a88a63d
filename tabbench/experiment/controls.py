"""The two words of the protocol that are no method: raw features, and a method's encoder without training."""

NONE = "none"
UNTRAINED = "untrained"


def untrained(method: str) -> str:
    """How the untrained control of a method is called in records and tables."""
    return f"{UNTRAINED}:{method}"


class Control:
    """Stands for a control in listings; the plan knows what to do with it, and never makes one."""
