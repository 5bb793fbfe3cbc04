cp 90-rdma.conf /etc/sysctl.d/90-rdma.conf
sysctl -p
