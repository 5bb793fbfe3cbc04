#!/usr/bin/python
"""Records options of kernel modules that the installed modules really have, and takes out those that they do not have."""

import os
import stat
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_module_options
short_description: Options of kernel modules, without ghosts
description:
  - The kernel accepts an option that a module does not have, writes one line to its log and ignores it.
  - Only names that `modinfo -p` lists are recorded. Others are problems, and are taken out of the files of the folder.
  - Nothing is loaded or unloaded here; what waits for the module's next load is pending.
options:
  modules:
    description: The modules whose options are looked at.
    type: list
    elements: str
    required: true
  options:
    description: "Module -> option -> value. A null value leaves the option alone."
    type: dict
    required: true
  record:
    description: The file that holds these options.
    type: path
    required: true
author: pdctl
"""

RETURN = r"""
installed:
  description: Module -> names of its parameters, of the modules that this kernel has.
  returned: always
  type: dict
problems:
  description: "Records: key, outcome (absent or overridden), wanted, live, message."
  returned: always
  type: list
removed:
  description: "Ghost options that were taken out: file, line, module, option."
  returned: always
  type: list
ghosts:
  description: "Ghost options in files that pdctl does not touch: file, line, module, option."
  returned: always
  type: list
pending:
  description: "Options that take effect at the module's next load: module, option, wanted, live."
  returned: always
  type: list
files:
  description: The files of the folder that name one of the modules, and those that were changed.
  returned: always
  type: list
"""

SYS_MODULE = Path("/sys/module")
# modprobe.d(5): a file hides its namesake of a later folder; then all are read in the order of their names.
FOLDERS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
# Taken from any module's options by the loader itself; linux kernel/module/main.c, lib/dynamic_debug.c.
LOADER = ("dyndbg", "async_probe")
HEAD = "# Written by pdctl from its policy: options that the installed module has.\n"


def parameters(run_command, name):
    """Names of the module's parameters, or None where this kernel has no such module."""
    code, printed, _said = run_command(["modinfo", "-p", name])
    if code != 0:
        return None
    return sorted(line.split(":", 1)[0].strip() for line in printed.splitlines() if ":" in line)


def options_of(line):
    """(module, [option text]) of an `options` line, else ("", [])."""
    words = line.split()
    if len(words) < 2 or words[0] != "options":
        return "", []
    return words[1].replace("-", "_"), words[2:]


def without_ghosts(line, installed):
    """(the line as it should be, "" for none of it; names of its ghosts)."""
    module, given = options_of(line)
    if module not in installed:
        return line, []
    ghosts = [text.split("=", 1)[0] for text in given if not has(installed[module], text.split("=", 1)[0])]
    if not ghosts:
        return line, []
    kept = [text for text in given if text.split("=", 1)[0] not in ghosts]
    return (" ".join(["options", module, *kept]) + "\n" if kept else ""), ghosts


def has(names, option):
    return option in LOADER or option.replace("-", "_") in names


def visible(folders):
    """Paths as modprobe reads them, in its order."""
    found = {}
    for folder in reversed(folders):
        found.update({path.name: path for path in Path(folder).glob("*.conf")})
    return [found[name] for name in sorted(found)]


def text_of(path):
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def record_text(options, installed):
    lines = []
    for module in sorted(options):
        given = {name: value for name, value in (options[module] or {}).items() if value is not None}
        real = [f"{name}={value}" for name, value in sorted(given.items()) if has(installed.get(module, ()), name)]
        if real:
            lines.append(f"options {module} {' '.join(real)}\n")
    return HEAD + "".join(lines) if lines else ""


def same_value(one, other):
    """The kernel shows a bool as Y or N."""
    truth = {"Y": "1", "N": "0", "True": "1", "False": "0"}
    return truth.get(str(one), str(one)) == truth.get(str(other), str(other))


def wanted_options(options, installed):
    for module in sorted(options):
        for name, value in sorted((options[module] or {}).items()):
            if value is not None and module in installed:
                yield module, name, value


def absent(options, installed):
    for module, name, value in wanted_options(options, installed):
        if not has(installed[module], name):
            real = ", ".join(installed[module]) or "none at all"
            message = f"{module} of this kernel has no such parameter, it would be ignored; it has: {real}"
            yield {"key": f"{module} {name}", "outcome": "absent", "wanted": str(value), "message": message}


def overridden(options, installed, files, texts):
    """Problems of options to which a later file gives another value: the last one counts."""
    for module, name, value in wanted_options(options, installed):
        last = None
        for path in files:
            for number, line in enumerate(texts[str(path)].splitlines(), 1):
                of, given = options_of(line)
                for text in given if of == module else []:
                    if text.partition("=")[0] == name:
                        last = (path, number, text.partition("=")[2])
        if last and has(installed[module], name) and not same_value(last[2], value):
            message = f"{last[0]}:{last[1]} sets {last[2]}, and is read after the record"
            record = {"key": f"{module} {name}", "outcome": "overridden", "wanted": str(value), "live": last[2]}
            yield dict(record, message=message)


def pending(options, installed):
    for module, name, value in wanted_options(options, installed):
        if not (SYS_MODULE / module).is_dir() or not has(installed[module], name):
            continue
        try:
            live = (SYS_MODULE / module / "parameters" / name).read_text(encoding="utf-8").strip()
        except OSError:
            # A parameter of mode 0 shows nothing.
            continue
        if not same_value(live, value):
            yield {"module": module, "option": name, "wanted": str(value), "live": live}


def write(path, text, remove):
    """Whole or not at all, with its former owner and mode. remove: without text there is no file either."""
    if not text and remove:
        Path(path).unlink()
        return
    former = Path(path).stat() if Path(path).exists() else None
    descriptor, partial = tempfile.mkstemp(prefix=".pdctl-", dir=str(Path(path).parent))
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
        if former:
            os.fchown(stream.fileno(), former.st_uid, former.st_gid)
        os.fchmod(stream.fileno(), stat.S_IMODE(former.st_mode) if former else 0o644)
        stream.flush()
        os.fsync(stream.fileno())
    Path(partial).replace(path)


def in_order(record):
    """Paths as modprobe reads them once the record is there."""
    files = visible(FOLDERS)
    if not any(str(path) == record for path in files):
        files = sorted([*files, Path(record)], key=lambda path: path.name)
    return files


def cleaned(path, text, installed):
    """(the text without its ghosts, [(line, module, option) of each])."""
    after, found = [], []
    for number, line in enumerate(text.splitlines(True), 1):
        kept, names = without_ghosts(line, installed)
        after.append(kept)
        found += [{"file": str(path), "line": number, "module": options_of(line)[0], "option": name} for name in names]
    return "".join(after), found


def shown(text):
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def main():
    module = AnsibleModule(
        argument_spec={
            "modules": {"type": "list", "elements": "str", "required": True},
            "options": {"type": "dict", "required": True},
            "record": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    options, record = module.params["options"], module.params["record"]
    names = list(dict.fromkeys(name.replace("-", "_") for name in [*module.params["modules"], *options]))
    found = {name: parameters(module.run_command, name) for name in names}
    installed = {name: each for name, each in found.items() if each is not None}
    wanted, files = record_text(options, installed), in_order(record)
    before = {str(path): text_of(path) for path in files}
    after, removed, ghosts = dict(before, **{record: wanted}), [], []
    for path in files:
        if str(path) == record:
            continue
        text, gone = cleaned(path, before[str(path)], installed)
        if path.parent == Path(FOLDERS[0]) and not path.is_symlink():
            after[str(path)] = text
            removed += gone
        else:
            ghosts += gone
    changed = [path for path in after if before[path] != after[path]]
    if not module.check_mode:
        for path in changed:
            write(path, after[path], remove=path == record)
    about = [path for path in after if any(name in names for name, _given in map(options_of, after[path].splitlines()))]
    module.exit_json(
        changed=bool(changed),
        installed=installed,
        problems=[*absent(options, installed), *overridden(options, installed, files, after)],
        removed=removed,
        ghosts=ghosts,
        pending=list(pending(options, installed)),
        files=sorted({*changed, *about}),
        diff=[
            {"before_header": path, "after_header": path, "before": shown(before[path]), "after": shown(after[path])}
            for path in changed
        ],
    )


if __name__ == "__main__":
    main()
