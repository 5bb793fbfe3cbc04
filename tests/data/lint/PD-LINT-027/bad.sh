cma_roce_tos -d mlx5_0 -t 104
export NCCL_IB_TC=160
