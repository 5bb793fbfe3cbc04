unset NCCL_IB_GID_INDEX
export NCCL_IB_GID_INDEX=-1
export UCX_IB_GID_INDEX=auto
export NCCL_IB_GID_INDEX=$(pick)
