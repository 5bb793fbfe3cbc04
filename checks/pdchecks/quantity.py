"""Amounts in the words of people."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: int | None) -> str:
    """A number of bytes in the largest unit that keeps it whole; `unlimited` for None."""
    if count is None:
        return "unlimited"
    value, unit = count, 0
    while value >= 1024 and value % 1024 == 0 and unit < len(_UNITS) - 1:
        value, unit = value // 1024, unit + 1
    return f"{value} {_UNITS[unit]}"


def listed(names: list[str], most: int = 4) -> str:
    """Names in one line; a long list is cut, with the number of what is left."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
