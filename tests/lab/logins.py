"""A login of a lab's node that is not root: it may use sudo, with its password."""

import subprocess
from pathlib import Path

from tests.lab.commands import run

PASSWORD = "correct horse"


def login_that_is_not_root(root: Path, name: str = "ops", key: Path | None = None) -> None:
    """Changes a node's root before it boots. key: whose public half may log in; default: what root's may."""
    digest = run("openssl", "passwd", "-6", PASSWORD).strip()
    for file, line in (
        ("passwd", f"{name}:x:1500:1500::/home/{name}:/bin/sh"),
        ("shadow", f"{name}:{digest}:20000:0:99999:7:::"),
    ):
        with (root / "etc" / file).open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
    keys = root / "home" / name / ".ssh" / "authorized_keys"
    keys.parent.mkdir(parents=True)
    public = key.with_suffix(".pub") if key else root / "root/.ssh/authorized_keys"
    keys.write_text(public.read_text(encoding="utf-8"), encoding="utf-8")
    for path in (keys.parent.parent, keys.parent, keys):
        path.chmod(0o700)
        subprocess.run(["chown", "1500:1500", str(path)], check=True)
    (root / "etc/sudoers.d" / name).write_text(f"{name} ALL=(ALL) ALL\n", encoding="utf-8")
    (root / "etc/sudoers.d" / name).chmod(0o440)
