ip link set dev ens4f0np0 mtu 9000
ibv_devinfo | grep active_mtu   # 4096
ib_write_bw -m 4096 peer
