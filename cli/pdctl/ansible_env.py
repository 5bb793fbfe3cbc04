"""The environment in which Ansible runs: a UTF-8 locale that exists here, and our ansible.cfg."""

import locale
import os
from collections.abc import Mapping
from pathlib import Path

from pdctl.content import content_root
from pdctl.errors import UsageError

_VAULT_PASSWORD_FILE = "ANSIBLE_VAULT_PASSWORD_FILE"
_UTF8_LOCALES = ("C.UTF-8", "C.utf8", "en_US.UTF-8")


def ansible_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base` (default: this process's environment) made fit for Ansible, which refuses to start without UTF-8.

    LC_ALL is replaced, so that Chinese text works and Ansible's messages are English under any locale of the user.

    Raises:
        UsageError: this machine has no UTF-8 locale.
    """
    environment = dict(os.environ if base is None else base)
    environment |= {
        "LC_ALL": utf8_locale(environment),
        "PYTHONUTF8": "1",
        "ANSIBLE_CONFIG": str(content_root() / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
    }
    password_file = environment.get(_VAULT_PASSWORD_FILE)
    if password_file and not password_file.startswith("~"):
        # Ansible starts in a folder of pdctl's own, where a relative path would lead elsewhere.
        environment[_VAULT_PASSWORD_FILE] = str(Path(password_file).absolute())
    environment.pop("ANSIBLE_FORCE_COLOR", None)
    environment.pop("LANGUAGE", None)
    return environment


def utf8_locale(environment: Mapping[str, str]) -> str:
    """The first UTF-8 locale that the C library of this machine has.

    Raises:
        UsageError: it has none.
    """
    chosen = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG")
    for name in (*_UTF8_LOCALES, *([chosen] if chosen else [])):
        if _is_utf8(name):
            return name
    raise UsageError(
        "this machine has no UTF-8 locale, and Ansible does not start without one",
        detail=f"tried: {', '.join(_UTF8_LOCALES)}",
        hint="Debian, Ubuntu: `apt-get install locales`; RHEL family: `dnf install glibc-langpack-en`",
    )


def _is_utf8(name: str) -> bool:
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, name)
        return locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8"
    except locale.Error:
        return False
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
