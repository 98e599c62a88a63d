"""The two controls of the protocol: raw features, and a method's encoder without training."""

NONE = "none"
UNTRAINED = "untrained"


def untrained(method: str) -> str:
    """The name of a method's untrained control in records and tables."""
    return f"{UNTRAINED}:{method}"


def is_untrained(ssl: str) -> bool:
    """Whether a name is that of an untrained control."""
    return ssl.startswith(untrained(""))


def method_of(ssl: str) -> str:
    """The method whose encoder a row has, trained or not."""
    return ssl.removeprefix(untrained(""))


class Control:
    """A placeholder for a control in listings. The plan handles controls itself and never instantiates this."""
