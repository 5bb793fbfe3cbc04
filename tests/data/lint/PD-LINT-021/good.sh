cp 90-rdma.conf /etc/sysctl.d/90-rdma.conf
sysctl --system
sysctl -p /etc/sysctl.d/90-rdma.conf
