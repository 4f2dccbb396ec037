"""Names that fit a column."""


def shortened(name: str, width: int) -> str:
    """Returns a name that fits, with its begin and its end: what tells models apart is often at the end."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"
