ibv_devinfo | grep active_mtu
rdma link
