systemctl enable rdma-load-modules@rdma.service
systemctl status rdma-hw.target
rdma link
