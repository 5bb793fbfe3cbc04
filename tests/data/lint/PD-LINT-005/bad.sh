echo 16384 > /proc/sys/net/ipv4/neigh/default/gc_thresh3
