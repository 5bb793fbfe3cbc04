"""What `-o` names where a command has no format of its own."""

from enum import StrEnum


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


class ReportFormat(StrEnum):
    """Of the doctor, whose report machines of several kinds read."""

    TABLE = "table"
    JSON = "json"
    JUNIT = "junit"
    NAGIOS = "nagios"
    PROM = "prom"
