ethtool -A ens4f0np0 rx off tx off
ethtool -a ens4f0np0
