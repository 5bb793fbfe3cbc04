"""A canary that ends badly keeps the run away from every other node."""

import pytest
from tests.lab.nodes import Lab
from tests.lab.site import Site, differences, snapshot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SYSCTLS = ("net.ipv4.tcp_rmem", "net.core.somaxconn")
# A network namespace shows this key and refuses to write it.
REFUSED = 'pdctl_policy=\'{"sysctl": {"net.core.rmem_max": 1}}\''


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    lab.up(["n1", "n2", "n3"])
    return Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1", "n2"], "decode": ["n3"]})


def test_the_other_nodes_are_not_touched_and_said_so_until_the_canary_ends_well(site: Site) -> None:
    nodes = site.lab.nodes
    bare = {name: snapshot(node, SYSCTLS) for name, node in nodes.items()}
    options = ("--canary", "1", "--serial", "50%", "--tags", "sysctl", "-o", "json")

    stopped = site.provision(site.ini(extra={"n1": REFUSED}), *options)
    assert stopped.code == 4
    assert [host["status"] for host in stopped.document["hosts"]] == ["partly", "untouched", "untouched"]
    assert stopped.document["run"]["stopped"] == "n1 ended partly, so 2 host(s) were not begun"
    for name in ("n2", "n3"):
        assert differences(bare[name], snapshot(nodes[name], SYSCTLS)) == []
        assert nodes[name].ssh("ls -A /var/lib/pdctl 2>/dev/null || true") == ""

    went_on = site.provision(site.ini(), *options)
    assert went_on.code == 0, went_on.stderr
    assert [host["status"] for host in went_on.document["hosts"]] == ["changed", "changed", "changed"]
    assert went_on.document["run"]["stopped"] is None
