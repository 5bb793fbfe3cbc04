"""A script as root, whoever logs in: with sudo, where that asks for nothing or for a password that we have."""

from shlex import quote

# Another printf than the shell's own would show the password to everybody who lists processes. What sudo leaves unread,
# because it remembers, is not for the script.
_WITH_PASSWORD = """\
if sudo -n true 2>/dev/null; then exec sudo -n sh -c "$script" </dev/null; fi
[ "$(command -v printf)" = printf ] || exit 126
unset sudo_password
sudo_password={password}
printf '%s\\n' "$sudo_password" | sudo -S -p '' sh -c "exec </dev/null
$script"
"""


def as_root(script: str, password: str | None = None) -> str:
    """To be fed to `sh -s`. password: what sudo may be answered; it goes into sudo's standard input, and nowhere else.

    It ends with status 126 or sudo's own, having printed nothing, where the login is not root and sudo does not let it.
    """
    head = f'script={quote(script)}\nif [ "$(id -u)" = 0 ]; then exec sh -c "$script" </dev/null; fi\n'
    if password is None:
        return f'{head}exec sudo -n sh -c "$script" </dev/null || exit 126\n'
    return head + _WITH_PASSWORD.format(password=quote(password))
