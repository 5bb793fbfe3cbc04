cat /proc/sys/net/ipv4/neigh/default/gc_thresh3
sysctl --system
