"""The managed state of a node: looked at, kept below one folder, compared and put back. Nothing of Ansible is needed here."""

import base64
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

# Root's own; survives a reboot and no package removes it.
KEPT = Path("/var/lib/pdctl/runs")
PROC = Path("/proc/sys")
# How the last run that came to its end left the node.
CONVERGED = KEPT.parent / "converged.json"
SYS_MODULE = Path("/sys/module")
RUN = re.compile(r"^\d{8}T\d{6}Z-[0-9a-f]{6}$")
# Of one file: a locale archive of a few locales has 3 MB a locale.
LARGEST_KEPT = 16 << 20
# Of one file that goes into the controller's record as well.
LARGEST_TRAVELLING = 256 << 10
# Runs that changed something, and the marks of those that did not.
MOST_KEPT = 20
MOST_MARKS = 200
LARGEST_DOCUMENT = 16 << 20
# What makes two looks at one path the same state.
TOLD_APART_BY = ("kind", "mode", "uid", "gid", "sha256", "target")


def words(text):
    return " ".join(str(text).split())


def proc_path(key):
    """sysctl.d(5): when the first separator is a slash, dots belong to names (eth0.100)."""
    first = re.search(r"[./]", key)
    return key if first and first.group() == "/" else key.replace(".", "/")


def look_at_path(path):
    """kind: absent, file, link, dir, other or unreadable (why)."""
    try:
        status = os.lstat(path)
        state = {"mode": stat.S_IMODE(status.st_mode), "uid": status.st_uid, "gid": status.st_gid}
        if stat.S_ISLNK(status.st_mode):
            return dict(state, kind="link", target=os.readlink(path))  # noqa: PTH115 (Path.readlink needs Python 3.9)
        if stat.S_ISDIR(status.st_mode):
            return dict(state, kind="dir")
        if not stat.S_ISREG(status.st_mode):
            return dict(state, kind="other")
        digest = hashlib.sha256()
        with Path(path).open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
        return dict(state, kind="file", sha256=digest.hexdigest(), size=status.st_size)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return {"kind": "absent"}
        return {"kind": "unreadable", "why": os.strerror(error.errno)}


def look_at_key(path):
    """The value, or None where the kernel has no such key or shows none."""
    try:
        return words((PROC / path).read_text(encoding="utf-8"))
    except OSError:
        return None


def _matching(pattern):
    return sorted(str(each) for each in Path("/").glob(pattern.lstrip("/")))


def expanded(paths, keys):
    """(paths with `*` filled in and what links among them lead to, keys as paths below /proc/sys with `*` filled in)."""
    every = []
    for path in [each for pattern in paths for each in (_matching(pattern) if "*" in pattern else [pattern])]:
        every += [path, os.path.realpath(path)] if Path(path).is_symlink() else [path]
    found = []
    for key in map(proc_path, keys):
        found += sorted(str(each.relative_to(PROC)) for each in PROC.glob(key)) if "*" in key else [key]
    return list(dict.fromkeys(every)), list(dict.fromkeys(found))


def look(paths, keys, modules):
    """paths and keys as `expanded` gives them."""
    return {
        "paths": {path: look_at_path(path) for path in paths},
        "sysctls": {key: look_at_key(key) for key in keys},
        "modules": {name: (SYS_MODULE / name.replace("-", "_")).is_dir() for name in modules},
    }


def look_again(former):
    return look(former["paths"], former["sysctls"], former["modules"])


def same(one, other):
    return all(one.get(key) == other.get(key) for key in TOLD_APART_BY)


def differing(former, latter):
    """(paths, keys) that are not the same in two looks."""
    paths = [path for path, state in former["paths"].items() if not same(state, latter["paths"][path])]
    return paths, [key for key, value in former["sysctls"].items() if value != latter["sysctls"][key]]


def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("ascii")).hexdigest()


def items(look):
    """Name of each thing looked at -> digest of its state."""
    found = {path: digest([state.get(key) for key in TOLD_APART_BY]) for path, state in look["paths"].items()}
    found.update({f"/proc/sys/{key}": digest(value) for key, value in look["sysctls"].items()})
    found.update({f"module {name}": digest(loaded) for name, loaded in look["modules"].items()})
    found.update({name: digest(value) for name, value in look.get("live", {}).items()})
    return found


def folder_of(run):
    if not RUN.match(run):
        raise ValueError(f"no id of a run: {run}")
    return KEPT / run


def keep(run, former):
    """Write the former state with the content of its files, whole or not at all; `kept` of a file says whether it fits."""
    folder = folder_of(run)
    contents = folder / "content"
    for each in (KEPT.parent, KEPT, folder, contents):
        each.mkdir(mode=0o700 if each != KEPT.parent else 0o755, exist_ok=True)
        refuse_unless_our_own(each)
    for path, state in former["paths"].items():
        if state["kind"] == "file":
            state["kept"] = state["size"] <= LARGEST_KEPT
            if state["kept"]:
                content = Path(path).read_bytes()
                if hashlib.sha256(content).hexdigest() != state["sha256"]:
                    raise ValueError(f"{path} is being changed by another")
                write_durably(contents / state["sha256"], content)
    write_document(folder / "before.json", former)


def refuse_unless_our_own(folder):
    """Whoever else may write there could have a rollback put anything anywhere."""
    status = folder.stat()
    others = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid())
    if status.st_uid != os.geteuid() or others:
        mode = oct(stat.S_IMODE(status.st_mode))[2:].zfill(4)
        raise ValueError(
            f"{folder} may be written by others than root (owner {status.st_uid}, mode {mode}): `chown root:root`, `chmod 755`"
        )


def travelling(run, former):
    """What is kept of `run`, with the content of its small files, sha256 -> base64."""
    digests = {
        entry["sha256"]
        for entry in former["paths"].values()
        if entry["kind"] == "file" and entry["kept"] and entry["size"] <= LARGEST_TRAVELLING
    }
    folder = folder_of(run) / "content"
    contents = {digest: base64.b64encode((folder / digest).read_bytes()).decode("ascii") for digest in sorted(digests)}
    return dict(former, contents=contents)


def mark_unchanged(run):
    """The run changed nothing here: nothing is worth its room but that fact."""
    folder = folder_of(run)
    write_document(folder / "unchanged.json", {"unchanged": True})
    (folder / "before.json").unlink()
    shutil.rmtree(str(folder / "content"))


def forget_the_end(run):
    """The run goes on: how it left the node is not known yet."""
    for name in ("after.json", "unchanged.json"):
        path = folder_of(run) / name
        if path.exists():
            path.unlink()


def unread(run):
    """Whether what an earlier run, or try of this one, wrote here may not have been read by whoever reads it: it did not come to its
    end, and none since then went over all roles."""
    if (folder_of(run) / "before.json").exists():
        return True
    earlier = [each for each in KEPT.iterdir() if RUN.match(each.name) and each.name != run] if KEPT.is_dir() else []
    last = max(earlier, key=lambda each: each.name, default=None)
    if last is None:
        return False
    ended = (last / "after.json").exists() or (last / "unchanged.json").exists()
    return (last / "unread").exists() or not ended


def mark_unread(run, holds):
    marker = folder_of(run) / "unread"
    if holds:
        marker.touch(mode=0o600)
    elif marker.exists():
        marker.unlink()


def prune():
    """Call it when nothing of an old run is needed any more."""
    runs = sorted((each for each in KEPT.iterdir() if RUN.match(each.name)), reverse=True)
    marks = [each for each in runs if (each / "unchanged.json").exists()]
    for old in [each for each in runs if each not in marks][MOST_KEPT:] + marks[MOST_MARKS:]:
        shutil.rmtree(str(old))


def document(path):
    """A document of this module, or None where there is none. Raises ValueError for a damaged one."""
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST_DOCUMENT + 1)
    except FileNotFoundError:
        return None
    if len(content) > LARGEST_DOCUMENT:
        raise ValueError(f"{path} is larger than {LARGEST_DOCUMENT} bytes")
    loaded = json.loads(content.decode("utf-8"))
    if not isinstance(loaded, dict):
        raise ValueError(f"{path} holds no document")
    return loaded


def write_document(path, loaded):
    write_durably(path, json.dumps(loaded).encode("ascii"))


def write_durably(path, content, mode=0o600, owner=None):
    """Whole or not at all, and on the disk when this returns."""
    descriptor, partial = tempfile.mkstemp(prefix=".pdctl-", dir=str(Path(path).parent))
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            if owner is not None:
                os.fchown(stream.fileno(), *owner)
            # After the owner: chown(2) clears the bits of set-user-ID.
            os.fchmod(stream.fileno(), mode)
            stream.flush()
            os.fsync(stream.fileno())
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink()
        raise
    sync(str(Path(path).parent))


def make_durable(paths):
    """What modules of Ansible renamed into place is on the disk when this returns, with the names in its folder."""
    for path in [*paths, *sorted({str(Path(path).parent) for path in paths})]:
        if not Path(path).is_symlink() and (Path(path).is_file() or Path(path).is_dir()):
            sync(path)


def sync(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_path_back(path, state, content):
    """content: bytes of a file, else None. Raises OSError."""
    now = look_at_path(path)
    kind = state["kind"]
    if kind == "absent":
        Path(path).rmdir() if now["kind"] == "dir" else Path(path).unlink()
    elif kind == "file":
        write_durably(path, content, state["mode"], (state["uid"], state["gid"]))
    elif kind == "link":
        with tempfile.TemporaryDirectory(prefix=".pdctl-", dir=str(Path(path).parent)) as beside:
            partial = Path(beside) / "link"
            partial.symlink_to(state["target"])
            os.lchown(str(partial), state["uid"], state["gid"])
            partial.replace(path)
    else:
        if now["kind"] != "dir":
            Path(path).mkdir()
        os.chown(path, state["uid"], state["gid"])
        Path(path).chmod(state["mode"])


def put_key_back(key, value):
    """One write(2), so that its errno is the kernel's answer to this value. Raises OSError."""
    descriptor = os.open(str(PROC / key), os.O_WRONLY)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)


def packages(run_command, find):
    """Name -> version of all that is installed, {} where neither dpkg nor rpm is. find: name -> path of a program or None."""
    for argv in (
        ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${binary:Package}\t${Version}\n"],
        ["rpm", "-qa", "--queryformat", "ii %{NAME}.%{ARCH}\t%{VERSION}-%{RELEASE}\n"],
    ):
        if not find(argv[0]):
            continue
        code, printed, _said = run_command(argv)
        lines = [line[2:].strip().split("\t") for line in printed.splitlines() if line.startswith("ii")]
        found = {line[0]: line[1] for line in lines if len(line) == 2}
        # A Debian node may have rpm as a mere tool, with no package in its database.
        if code == 0 and found:
            return found
    return {}
