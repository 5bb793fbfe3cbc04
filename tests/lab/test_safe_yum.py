"""safe_yum installs from a real RPM repository whose metadata is not ASCII, on nodes whose locales are of other languages."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.lab.nodes import Lab, Node
from tests.lab.site import Ran, Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

_SPECS = {
    # Stands for what the packages of a Debian node already provide.
    "base": "Provides: /bin/sh\nProvides: system-release = 9\n%description\nbase\n%files\n",
    "probe": (
        "Packager: José Ñandú <jose@example.org>\n%description\nété, Größe, 東京\n"
        "%install\nmkdir -p '%{buildroot}/opt/probe'; echo x > '%{buildroot}/opt/probe/fichier-é'\n"
        "%files\n/opt/probe\n%post\nenv | grep -E '^(LANG|LC_)' | sort > /opt/probe/environment\n"
    ),
}
_SUMMARY = "naïve café 你好"
# The no-break space is what a paste from a web page leaves.
_REPOSITORY = """[local]
name=Größe
baseurl=file:///srv/rpm
gpgcheck=0
[gone]
name=gone
enabled=0
baseurl=http://mirror.centos.org/centos/7/os/x86_64/
#baseurl=http://mirrorlist.centos.org/
""".replace("name=gone", "name=\u00a0gone")


def _of_another_language(root: Path) -> None:
    """dnf has a repository; logins get a locale that is not there."""
    for name, text in _SPECS.items():
        head = f"Name: {name}\nVersion: 1\nRelease: 1\nSummary: {_SUMMARY}\nLicense: MIT\nBuildArch: noarch\n"
        (root / f"srv/{name}.spec").write_text(head + text, encoding="utf-8")
    (root / "etc/yum.repos.d").mkdir(exist_ok=True)
    (root / "etc/yum.repos.d/local.repo").write_text(_REPOSITORY, encoding="utf-8")
    (root / "etc/dnf/vars").mkdir(exist_ok=True, parents=True)
    (root / "etc/dnf/vars/releasever").write_text("9\n", encoding="utf-8")
    (root / "etc/default/locale").write_text("LANG=zh_CN.GBK\n", encoding="utf-8")


def _make_repository(node: Node) -> None:
    node.ssh(
        "set -e; mkdir /srv/rpm; cd /srv; for name in base probe; do LC_ALL=C.UTF-8 rpmbuild -bb"
        " --define '_topdir /srv/build' --define '_build_id_links none' $name.spec >/srv/log 2>&1 || { cat /srv/log; exit 1; };"
        " done; cp build/RPMS/noarch/*.rpm rpm/; createrepo_c -q rpm",
        timeout_s=120,
    )


@dataclass(frozen=True)
class Story:
    node: Node
    ran: Ran


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    (node,) = lab.up(["r1"], _of_another_language)
    _make_repository(node)
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["r1"]})
    return Story(node, site.provision(site.ini(), "--tags", "locale,safe_yum", "-o", "json"))


def test_the_byte_and_the_dead_mirror_are_named_by_file_line_and_column(story: Story) -> None:
    assert story.ran.code == 0, story.ran.stderr
    said = {notice["key"]: notice["message"] for notice in story.ran.host("r1")["notices"]}
    file = "/etc/yum.repos.d/local.repo"
    assert said[f"{file}:6:6"] == "non-ASCII 0xc2 0xa0 (NO-BREAK SPACE)"
    assert said[f"{file}:2:8"] == "non-ASCII 0xc3 0xb6 0xc3 0x9f (LATIN SMALL LETTER O WITH DIAERESIS)"
    assert said[f"{file}:8:16"] == "mirror.centos.org serves no release any more: https://vault.centos.org/ keeps it"
    assert len(said) == 3


@pytest.mark.parametrize("language", ["", "LANG=C", "LANG=de_DE.UTF-8", "LC_ALL=zh_CN.GBK", "LC_ALL=C PYTHONUTF8=0"])
def test_it_installs_and_shows_names_as_they_are_whatever_language_the_caller_has(story: Story, language: str) -> None:
    quiet = "PYTHONCOERCECLOCALE=0"
    told = story.node.ssh(f"env {quiet} {language} safe_yum -q info probe", timeout_s=60)
    assert _SUMMARY in told and "東京" in told
    story.node.ssh(f"env {quiet} {language} safe_yum -q -y install probe", timeout_s=60)
    environment = story.node.ssh("cat /opt/probe/environment").splitlines()
    story.node.ssh(f"env {language} safe_yum -q -y remove probe", timeout_s=60)
    assert "LC_ALL=C.UTF-8" in environment


def test_without_the_wrapper_the_same_dnf_shows_them_wrong(story: Story) -> None:
    """What the wrapper is for: an old Python's dnf, which takes the caller's locale."""
    told = story.node.ssh("env PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 LC_ALL=C dnf -q info probe", timeout_s=60)
    assert _SUMMARY not in told
