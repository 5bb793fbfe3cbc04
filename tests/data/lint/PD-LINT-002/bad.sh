ip link set dev ens4f0np0 mtu 4096
ifconfig eth2 mtu 4096 up
