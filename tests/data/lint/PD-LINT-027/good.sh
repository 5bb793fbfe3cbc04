cma_roce_tos -d mlx5_0 -t 106
export NCCL_IB_TC=106
