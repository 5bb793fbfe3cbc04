"""Words of strangers on a terminal."""


def printable(text: str) -> str:
    """The text without what would move a cursor, change a colour or ring a bell; lines and tabs stay."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)
