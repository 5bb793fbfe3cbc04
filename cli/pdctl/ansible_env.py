"""The environment in which Ansible runs: a UTF-8 locale that exists here, and our ansible.cfg."""

import locale
import os
from collections.abc import Mapping
from pathlib import Path

from pdctl.content import content_root
from pdctl.errors import UsageError

_VAULT_PASSWORD_FILE = "ANSIBLE_VAULT_PASSWORD_FILE"
# Settings of ansible-core that would change what a run does, where (TRANSPORT), how safely (UNSAFE_WRITES), or make it ask on a
# terminal that nobody sees. Those that say how a node is reached or a vault opened are the user's.
_OURS_TO_SAY = frozenset(
    f"ANSIBLE_{name}"
    for name in (
        "ACTION_PLUGINS", "ANY_ERRORS_FATAL", "ASK_PASS", "ASK_VAULT_PASS", "BECOME_ASK_PASS",
        "CACHE_PLUGIN", "CALLBACKS_ENABLED", "CALLBACK_PLUGINS", "CONNECTION_PLUGINS", "DEBUG",
        "DIFF_ALWAYS", "DIFF_CONTEXT", "DISPLAY_ARGS_TO_STDOUT", "DISPLAY_TRACEBACK",
        "ENABLE_TASK_DEBUGGER", "ERROR_ON_MISSING_HANDLER", "ERROR_ON_UNDEFINED_VARS", "EXECUTABLE",
        "FACTS_MODULES", "FORCE_HANDLERS", "FORKS", "GATHERING", "HASH_BEHAVIOUR", "HOST_PATTERN_MISMATCH",
        "INJECT_FACT_VARS", "INVENTORY", "INVENTORY_EXPORT", "INVENTORY_IGNORE", "INVENTORY_IGNORE_REGEX",
        "JINJA2_EXTENSIONS", "JINJA2_NATIVE", "KEEP_REMOTE_FILES", "LIBRARY", "LOG_PATH", "MAX_DIFF_SIZE",
        "MODULE_ARGS", "MODULE_UTILS", "NO_LOG", "NULL_REPRESENTATION", "PLAYBOOK_DIR",
        "PLAYBOOK_VARS_ROOT", "PRECEDENCE", "PRIVATE_ROLE_VARS", "ROLES_PATH", "RUN_TAGS", "SKIP_TAGS",
        "STDOUT_CALLBACK", "STRATEGY", "STRATEGY_PLUGINS", "TASK_TIMEOUT", "TRANSFORM_INVALID_GROUP_CHARS",
        "TRANSPORT", "UNSAFE_WRITES", "VERBOSITY", "VERBOSE_TO_STDERR",
    )
)  # fmt: skip
_UTF8_LOCALES = ("C.UTF-8", "C.utf8", "en_US.UTF-8")


def ansible_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base` (default: this process's environment) made fit for Ansible, which refuses to start without UTF-8.

    LC_ALL is replaced, so that Chinese text works and Ansible's messages are English under any locale of the user. What of the
    user's settings is `unheeded` is left out.

    Raises:
        UsageError: this machine has no UTF-8 locale.
    """
    environment = {
        name: value for name, value in (os.environ if base is None else base).items() if name not in _OURS_TO_SAY
    }
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


def unheeded(environment: Mapping[str, str]) -> list[str]:
    """The settings of Ansible in it that do not count, since pdctl says by itself what a run does."""
    return sorted(_OURS_TO_SAY.intersection(environment))


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
