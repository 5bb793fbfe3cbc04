#!/usr/bin/python
"""Finds yum and dnf, and names by file, line and column what stops them: non-ASCII bytes, mirrors that are gone."""

import re
import unicodedata
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_yum
short_description: Look for yum and dnf and scan what they read for non-ASCII bytes
options:
  patterns:
    description: Shell patterns of the files to scan.
    type: list
    elements: str
    required: true
  archived:
    description: "Mirrors that serve no release any more: host name to the address of its archive."
    type: dict
    default: {}
  most:
    description: Report at most so many bytes of one file.
    type: int
    default: 20
author: pdctl
"""

RETURN = r"""
tools:
  description: Paths of dnf and yum, in this order, of those that exist.
  returned: always
  type: list
found:
  description:
    - "One record a place: file, line, column (1 is the first byte), bytes, character, comment."
    - character is the name of the first one, or null when the bytes are not UTF-8.
  returned: always
  type: list
gone:
  description: "One record a line that is read and names an archived mirror: file, line, column, host, archive."
  returned: always
  type: list
unread:
  description: "Files that could not be read: file, message."
  returned: always
  type: list
"""

# A file of a package manager is small; what is larger is no such file.
LARGEST_FILE = 1 << 20


def places(content):
    """(line, column, bytes, is a comment) of each run of non-ASCII bytes."""
    for number, line in enumerate(content.splitlines(), 1):
        for run in re.finditer(rb"[\x80-\xff]+", line):
            yield number, run.start() + 1, run.group(), line.lstrip().startswith((b"#", b";"))


def character(data):
    """The name of the first character, which tells a pasted no-break space from a name in Chinese."""
    try:
        return unicodedata.name(data.decode("utf-8")[0], "unnamed character")
    except UnicodeDecodeError:
        return None


def gone(content, archived):
    """(line, column, host) of each archived mirror that stands in a URL which is no comment."""
    for number, line in enumerate(content.splitlines(), 1):
        if line.lstrip().startswith((b"#", b";")):
            continue
        for url in re.finditer(rb"://([A-Za-z0-9.-]{1,253})", line):
            host = url.group(1).decode("ascii").lower()
            if host in archived:
                yield number, url.start(1) + 1, host


def main():
    module = AnsibleModule(
        argument_spec={
            "patterns": {"type": "list", "elements": "str", "required": True},
            "archived": {"type": "dict", "default": {}},
            "most": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    tools = [path for path in (module.get_bin_path("dnf"), module.get_bin_path("yum")) if path]
    found, mirrors, unread = [], [], []
    archived = module.params["archived"]
    root = Path("/")
    for path in sorted({path for pattern in module.params["patterns"] for path in root.glob(pattern.lstrip("/"))}):
        try:
            with path.open("rb") as stream:
                content = stream.read(LARGEST_FILE)
        except OSError as error:
            unread.append({"file": str(path), "message": str(error)})
            continue
        for line, column, data, comment in list(places(content))[: module.params["most"]]:
            found.append(
                {
                    "file": str(path),
                    "line": line,
                    "column": column,
                    "bytes": " ".join(f"0x{byte:02x}" for byte in data[:8]),
                    "character": character(data),
                    "comment": comment,
                }
            )
        for line, column, host in gone(content, archived):
            mirrors.append({"file": str(path), "line": line, "column": column, "host": host, "archive": archived[host]})
    module.exit_json(changed=False, tools=tools, found=found, gone=mirrors, unread=unread)


if __name__ == "__main__":
    main()
