"""What `-o` names where a command has no format of its own."""

from enum import StrEnum


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
