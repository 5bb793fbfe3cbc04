"""Addresses of an interface in netplan's files. netplan joins the lists of all files: a file of ours could only add to the others'."""

import re
from pathlib import Path

from ansible.module_utils.pdctl_addresses import Refused

FOLDERS = ("/etc/netplan", "/run/netplan", "/lib/netplan")
OWN = "/etc/netplan/91-pdctl-address.yaml"
_HEAD = "# Written by pdctl from its policy; netplan joins it with the other files by each interface's id.\n"
_CLOUD = Path("/etc/cloud")


def files():
    return [path for folder in FOLDERS for path in sorted(Path(folder).glob("*.yaml"))]


def changed(texts, section, name, wanted):
    """Path -> text that must stand there. texts: path -> text of all files. name: the interface's id. Raises Refused."""
    try:
        import yaml
    except ImportError:
        raise Refused("python3-yaml, by which netplan's files are read, is not there") from None
    try:
        said = {path: _said(yaml.safe_load(text), section, name) for path, text in texts.items()}
    except yaml.YAMLError as error:
        raise Refused(f"netplan's files cannot be read: {error}") from None
    for path, of in said.items():
        if of.get("dhcp4"):
            raise Refused(f"it gets its address by DHCP ({path})")
    holding = [path for path, of in said.items() if of.get("addresses")]
    if len(holding) > 1:
        raise Refused(f"its addresses stand in several files ({', '.join(holding)}): join them in one")
    path = holding[0] if holding else OWN
    if holding and said[path]["addresses"] == wanted:
        return {path: texts[path]}
    if path == OWN:
        return {OWN: _own(yaml.safe_load(texts.get(OWN) or "{}"), section, name, wanted)}
    _refuse_foreign(path, texts[path])
    new = _edited(yaml, texts[path], section, name, wanted)
    expected = yaml.safe_load(texts[path])
    _said(expected, section, name)["addresses"] = wanted
    try:
        as_expected = yaml.safe_load(new) == expected
    except yaml.YAMLError:
        as_expected = False
    if not as_expected:
        raise Refused(f"{path} is written in a way in which its list of addresses cannot be replaced")
    return {path: new}


def _said(loaded, section, name):
    """What a file says of the interface; the mapping itself."""
    for key in ("network", section, name):
        loaded = loaded.get(key) if isinstance(loaded, dict) else None
    return loaded if isinstance(loaded, dict) else {}


def _refuse_foreign(path, text):
    if not path.startswith("/etc/"):
        raise Refused(f"{path} is no file of the site: give the addresses in {FOLDERS[0]}")
    ours = (_CLOUD / "cloud-init.disabled").exists() or any(
        re.search(r"config:\s*[\"']?disabled", each.read_text(encoding="utf-8", errors="replace"))
        for each in sorted(_CLOUD.glob("cloud.cfg.d/*.cfg"))
    )
    comments = [line for line in text.splitlines() if line.startswith("#")]
    if not ours and any("cloud-init" in line or "datasource" in line for line in comments):
        raise Refused(f"cloud-init writes {path}: give the addresses there, or take the network from it")


def _own(loaded, section, name, wanted):
    of = {key: dict(value) for key, value in ((loaded or {}).get("network") or {}).items() if key != "version"}
    of.setdefault(section, {})[name] = {"addresses": wanted}
    lines = [_HEAD.rstrip("\n"), "network:", "  version: 2"]
    for kind in sorted(of):
        lines.append(f"  {kind}:")
        for each in sorted(of[kind]):
            listed = ", ".join(f'"{address}"' for address in of[kind][each]["addresses"])
            lines += [f"    {each}:", f"      addresses: [{listed}]"]
    return "\n".join(lines) + "\n"


def _edited(yaml, text, section, name, wanted):
    """The text with another list: its comments and its order stay."""
    node = yaml.compose(text)
    for key in ("network", section, name, "addresses"):
        node = next((value for at, value in node.value if at.value == key), None)
    begin, end = node.start_mark, node.end_mark
    quoted = [f'"{each}"' for each in wanted]
    if node.flow_style:
        return f"{text[: begin.index]}[{', '.join(quoted)}]{text[end.index :]}"
    # The mark of a block's end is where the next one begins.
    items = f"\n{' ' * begin.column}- ".join(quoted)
    return f"{text[: begin.index]}- {items}{text[node.value[-1].end_mark.index :]}"
