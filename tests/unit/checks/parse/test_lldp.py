"""lldptool prints this port's settings and the switch's in one form; only the command says whose they are."""

from pdchecks.evidence import Evidence, read_blocks
from pdchecks.facts.net import LldpNeighbour
from pdchecks.facts.qos import QosPfc
from pdchecks.nodefacts import NodeFacts, gather

PFC = "IEEE 8021QAZ PFC TLV\n\t Willing: yes\n\t PFC capable traffic classes: 8\n\t PFC enabled: 3 4\n"
NEIGHBOUR = (
    "Chassis ID TLV\n\tMAC: 0c:42:a1:11:22:33\nPort ID TLV\n\tIfname: swp12\nTime to Live TLV\n\t120\n"
    "System Name TLV\n\tleaf-a1\n"
)


def _facts(command: str, output: str) -> NodeFacts:
    return gather(Evidence("node", tuple(read_blocks(f"=== cmd: {command}\n=== rc: 0\n{output}=== end\n"))))


def test_pfc_of_this_port_is_its_setting() -> None:
    (pfc,) = _facts("lldptool -t -i eth2 -V PFC", PFC).all(QosPfc)
    assert (pfc.netdev, pfc.enabled) == ("eth2", {3, 4})


def test_pfc_of_the_switch_is_not_taken_for_this_ports() -> None:
    facts = _facts("lldptool -t -n -i eth2", NEIGHBOUR + PFC)
    assert not facts.all(QosPfc)
    (end,) = facts.all(LldpNeighbour)
    assert (end.netdev, end.switch, end.port) == ("eth2", "leaf-a1", "swp12")
