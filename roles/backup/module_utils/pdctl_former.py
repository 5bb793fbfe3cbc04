"""The state of a node before a run: where it is kept, how what is there now differs from it, and what nothing brings back."""

import base64
import hashlib
from pathlib import Path

from ansible.module_utils import pdctl_live as live
from ansible.module_utils import pdctl_state as state

SHOWN_DIFF = 64 << 10
SHOWN_PACKAGES = 30


class Former:
    """The state before the run, after it (None: the run did not end here), and the content of its files."""

    def __init__(self, run, copy):
        folder = state.folder_of(run)
        self._folder = folder / "content"
        self.unchanged = (folder / "unchanged.json").exists() or bool(copy.get("unchanged"))
        self.before = state.document(folder / "before.json")
        self.after = state.document(folder / "after.json")
        self._contents = {}
        if self.before is None and copy.get("paths") is not None:
            self.before, self.after, self._contents = copy, copy.get("after"), copy.get("contents") or {}

    def content(self, entry):
        """Bytes of a file, or None when they were not kept, or are no longer what was kept."""
        digest = entry["sha256"]
        if digest in self._contents:
            found = base64.b64decode(self._contents[digest])
        else:
            path = self._folder / digest
            found = path.read_bytes() if path.is_file() else b""
        return found if hashlib.sha256(found).hexdigest() == digest else None


def notice(key, message):
    return {"role": "backup", "key": key, "message": message}


def dotted(key):
    return key if "." in key else key.replace("/", ".")


def moved_since(former, now, paths, keys, others):
    """Of what differs from before, that which is not as the run left it either."""
    if former.after is None:
        return []
    moved = [path for path in paths if not state.same(now["paths"][path], former.after["paths"][path])]
    moved += [dotted(key) for key in keys if now["sysctls"][key] != former.after["sysctls"][key]]
    return moved + [name for name in others if now["live"][name] != former.after["live"][name]]


def to_restore(former, now):
    """(paths, keys, others) that the run changed and that are not as before it, and notices of keys that came or went."""
    paths, keys = state.differing(former.before, now)
    others = [name for name in live.differing(former.before, now) if not live.stays(name)]
    if former.after is not None:
        ours, values = state.differing(former.before, former.after)
        paths, keys = [path for path in paths if path in ours], [key for key in keys if key in values]
        moved = live.differing(former.before, former.after)
        others = [name for name in others if name in moved]
    lost = [key for key in keys if former.before["sysctls"][key] is None or now["sysctls"][key] is None]
    notices = [notice(dotted(key), "is not there now, or was not before the run") for key in lost]
    return paths, [key for key in keys if key not in lost], others, notices


def beyond(former, now, installed):
    """Notices of what a rollback does not undo."""
    was, after = former.before["packages"], (former.after or {}).get("packages", installed)
    names = sorted(name for name in set(was) | set(after) if was.get(name) != after.get(name))
    found = []
    if names:
        more = f" and {len(names) - SHOWN_PACKAGES} more" if len(names) > SHOWN_PACKAGES else ""
        changes = ", ".join(f"{n} ({was.get(n, 'absent')} -> {after.get(n, 'absent')})" for n in names[:SHOWN_PACKAGES])
        found.append(notice("packages", f"cannot be undone, they stay: {changes}{more}"))
    for name, loaded in former.before["modules"].items():
        if now["modules"][name] and not loaded:
            found.append(notice(name, "cannot be undone: the module stays loaded until the next boot"))
    for name in filter(live.stays, live.differing(former.before, now)):
        found.append(notice(name, f"cannot be undone: was {former.before['live'][name]}, is {now['live'][name]}"))
    if former.after is None:
        found.append(notice("run", "did not end on this node: what others changed since it began goes back as well"))
    return found


def strangers(path, former):
    """Whether a folder holds what the run did not put there."""
    if state.look_at_path(path)["kind"] != "dir":
        return False
    return any(str(each) not in former.before["paths"] for each in Path(path).iterdir())


def shown(path, entry, content):
    """One side of a diff."""
    if entry["kind"] == "absent":
        return ""
    head = f"# {entry['kind']} {entry.get('mode', 0):04o} {entry.get('uid')}:{entry.get('gid')}\n"
    if entry["kind"] == "link":
        return f"{head}{entry['target']}\n"
    if entry["kind"] != "file":
        return head
    if content is None or len(content) > SHOWN_DIFF or b"\0" in content:
        return f"{head}(sha256 {entry['sha256']})\n"
    return head + content.decode("utf-8", "replace")


def differences(former, now, paths, keys, others):
    found = []
    for path in paths:
        current, entry = now["paths"][path], former.before["paths"][path]
        small = current["kind"] == "file" and current["size"] <= SHOWN_DIFF
        live = Path(path).read_bytes() if small else None
        content = former.content(entry) if entry["kind"] == "file" else None
        sides = {"before": shown(path, current, live), "after": shown(path, entry, content)}
        found.append(dict(sides, before_header=path, after_header=path))
    if keys:
        sides = ["".join(f"{dotted(key)} = {look['sysctls'][key]}\n" for key in keys) for look in (now, former.before)]
        found.append({"before": sides[0], "after": sides[1], "before_header": "/proc/sys", "after_header": "/proc/sys"})
    for name in others:
        sides = {"before": f"{now['live'][name]}\n", "after": f"{former.before['live'][name]}\n"}
        found.append(dict(sides, before_header=name, after_header=name))
    return found
