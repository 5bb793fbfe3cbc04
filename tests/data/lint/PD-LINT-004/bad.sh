echo 1 > /proc/sys/net/ipv4/neigh/default/base_reachable_time_ms
sysctl -w net.ipv4.neigh.eth2.base_reachable_time_ms=1000
