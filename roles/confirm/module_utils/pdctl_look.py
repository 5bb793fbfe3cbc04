"""What a module that looks for pdctl_confirmed answers with: commands both ways, values, and what the boot must be told."""

from ansible.module_utils import pdctl_boot as boot
from ansible.module_utils import pdctl_settings as settings


def answer(module, area, what, wanted, holds, problems, notices, ports):
    """Ends the module. wanted: name of a setting -> value, in the order in which they are set; holds(name, wanted, live)."""
    live = {name: settings.read(name) for name in wanted}
    missing = [name for name, value in live.items() if value == settings.ABSENT]
    differing = [name for name, value in wanted.items() if name not in missing and not holds(name, value, live[name])]
    steps = [argv for name in differing for argv in settings.commands(name, wanted[name], live[name])]
    undo = [argv for name in reversed(differing) for argv in settings.commands(name, live[name], wanted[name])]
    at_boot = {}
    if wanted:
        rows = [
            (folder_of(name), settings.commands(name, value, None))
            for name, value in wanted.items()
            if name not in missing
        ]
        at_boot = boot.files(area, what, ports, rows)
    records = boot.differing(module, area, at_boot) if at_boot else []
    diff = [
        {"before_header": path, "after_header": path, "before": boot.text_of(path) or "", "after": at_boot[path][0]}
        for path in records
        if path in at_boot
    ]
    if differing:
        sides = [[f"{name} = {side[name]}\n" for name in differing] for side in (live, wanted)]
        diff.append(
            {"before_header": "live", "after_header": "live", "before": "".join(sides[0]), "after": "".join(sides[1])}
        )
    changed = False
    if module.params["phase"] == "record" and records and not module.check_mode:
        problems += boot.record(module, area, at_boot)
        changed = True
    module.exit_json(
        changed=changed,
        wanted=[{"key": name, "wanted": wanted[name], "live": live[name]} for name in differing],
        steps=steps,
        undo=undo,
        records=records,
        state=live,
        problems=problems,
        notices=notices,
        diff=diff,
    )


def folder_of(name):
    """The sysfs folder of the interface or RDMA device that a setting is of, or None: of a file of debugfs."""
    kind, _space, of = name.partition(" ")
    if kind in settings.QOS:
        return f"/sys/class/net/{of}"
    if kind == "tos":
        return f"{boot.DEVICE_CLASS}/{of.partition('/')[0]}"
    return "/".join(of.split("/")[:5]) if of.startswith("/sys/class/") else None
