ibstat mlx5_0 | grep -i state
