"""PCI Express arithmetic."""

# Share of the raw rate that carries data: 8b/10b coding up to 5 GT/s, 128b/130b up to 32, none from 64 on;
# linux drivers/pci/pci.h, PCIE_SPEED2MBS_ENC.
_CODING = {2.5: 0.8, 5.0: 0.8, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130}


def gbps(speed: float, width: int) -> float:
    """What a link of `speed` GT/s and `width` lanes carries one way, in Gb/s."""
    return speed * _CODING.get(speed, 1.0) * width
