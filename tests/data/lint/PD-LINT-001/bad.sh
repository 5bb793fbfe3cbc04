echo 'options mlx5_core log_sz_xrq=18 log_sz_sq=18' >> /etc/modprobe.d/mlx5.conf
