ethtool -A ens4f0np0 rx on tx on
