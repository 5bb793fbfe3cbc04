"""What ssh says when it does not get through, in one line: what it means, its own words, what to do."""

import re

# (in ssh's words, what it means, what to do); the first that is found counts. WITHIN becomes the deadline, where it is known.
_MEANINGS = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key is not the known one, so that it was not connected to",
        "if the node was installed anew: `ssh-keygen -R ADDRESS`, then connect once with ssh and compare the new key",
    ),
    (
        r"Host key verification failed|host key is known for",
        "its host key is not known here",
        "connect once with ssh and compare the key's fingerprint with the node's own",
    ),
    (
        r"Permission denied|Too many authentication failures|Authentication failed",
        "the node takes none of the keys, nor a password",
        "see ansible_user and ansible_ssh_private_key_file, or load the key with ssh-add",
    ),
    (
        r"UNPROTECTED PRIVATE KEY FILE|Identity file .* not accessible|Load key ",
        "the SSH key cannot be used",
        "see ansible_ssh_private_key_file: it is the private half, and nobody else may read it",
    ),
    (r"Could not resolve hostname", "its name does not resolve here", "give the host an address with ansible_host"),
    (r"Connection refused", "nothing listens on its SSH port", "see whether sshd runs there (ansible_port)"),
    (
        r"timed out during banner exchange",
        "its SSH port takes the connection, and nothing answers thereWITHIN",
        "see on its console what it is busy with, or give it more time with --timeout",
    ),
    (
        r"Timeout, server .* not responding",
        "it stopped answering in the middle, and the connection was given up",
        "see whether the node is up, and on its console what it is busy with; `pdctl runs resume` goes on",
    ),
    (
        r"banner exchange|kex_exchange_identification|Connection closed|Connection reset",
        "what listens on its SSH port speaks no SSH",
        "see whether it is sshd that listens there (ansible_port), and its limits (MaxStartups)",
    ),
    (
        r"timed out|No route to host|Network is unreachable|Host is down",
        "no answer from its addressWITHIN",
        "see whether the node is up, and whether no firewall is in between; --timeout gives it more time",
    ),
)
_NOISE = re.compile(r"^(?:@+|Warning: Permanently added .*|Failed to connect to the host via ssh:?|\*+.*)$")


def in_plain_words(said: str, timeout_s: int | None = None) -> str:
    """One line. What is of no known kind comes back as its telling line alone. timeout_s: of the connection attempt."""
    lines = [line.strip().removeprefix("Failed to connect to the host via ssh: ").strip() for line in said.splitlines()]
    lines = [line for line in lines if line and not _NOISE.match(line)]
    for pattern, meaning, remedy in _MEANINGS:
        told = [line for line in lines if re.search(pattern, line)]
        if told:
            late = timeout_s and "timed out" in told[-1]
            meaning = meaning.replace("WITHIN", f" within {timeout_s} s" if late else "")
            words = lines[-1] if "HAS CHANGED" in told[-1] else told[-1]
            return f"{meaning} (ssh: {words.removeprefix('ssh: ')}); {remedy}"
    return lines[-1] if lines else "no reason given"
